/* Which lines of a requirements.txt are exact, and what its key depends on. */
#include "../unit.h"
#include "base/file.h"
#include "base/util.h"
#include "dialect/atlas/requirements.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char dir[] = "/tmp/berth-requirements-XXXXXX";

static void put(const char *name, const char *text)
{
    struct err e;

    if (file_write_atomic(name, text, strlen(text), 0644, &e) < 0)
        fail_msg("%s", e.text);
}

static struct requirements scan(const char *text, char key[65])
{
    struct requirements r;

    put("requirements.txt", text);
    requirements_init(&r);
    requirements_read(&r, "requirements.txt");
    requirements_key(&r, key);
    requirements_done(&r);
    return r;
}

static int set_up(void **state)
{
    (void)state;
    struct err e;

    return mkdtemp(dir) && chdir(dir) == 0 && dir_make_all("pkg/sub", 0755, &e) == 0 &&
                   dir_make_all("files", 0755, &e) == 0
               ? 0
               : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return dir_remove_tree(dir, NULL);
}

TEST(which_lines_are_exact)
{
    static const struct {
        const char *text;
        bool fixed, local, editable;
    } cases[] = {
        {"", true, false, false},
        {"# nothing\n\n", true, false, false},
        {"numpy==1.26.4\n", true, false, false},
        {"numpy == 1.26.4 ; python_version > '3' # why\n", true, false, false},
        {"uvicorn[standard]===0.1\n", true, false, false},
        {"numpy==1.26.4 --hash=sha256:ab \\\n  --hash=sha256:cd\n", true, false, false},
        {"numpy==1.*\n", false, false, false},
        {"numpy==1,<2\n", false, false, false},
        {"numpy>=1\n", false, false, false},
        {"numpy\n", false, false, false},
        {"# a\\\nnumpy\n", false, false, false},
        {"numpy==1\r\npandas\r\n", false, false, false},
        {"\xef\xbb\xbfnumpy==1\n", true, false, false},
        {"git+https://x/y@main\n", false, false, false},
        {"y @ git+ssh://git@x/y\n", false, false, false},
        {"y@https://x/y.whl\n", false, false, false},
        {"-e git+https://x/y#egg=y\n", false, false, false},
        {"-e .\n", true, true, true},
        {"--editable=./pkg[test]\n", true, true, true},
        {"./pkg\n", true, true, false},
        {"./pkg[test]\n", true, true, false},
        {"pkg/\n", true, true, false},
        {"./absent\n", false, true, false},
        {"absent-1.whl\n", false, true, false},
        {"-i https://x/simple\nnumpy==1\n", true, false, false},
        {"--extra-index-url=https://x --trusted-host x --pre\nnumpy==1\n", true, false, false},
        {"-ffiles\nnumpy==1\n", false, true, false},
        {"--find-links 'files'\n", false, true, false},
        {"--index-url file:///x\n", false, true, false},
        {"--only-binary :all:\nnumpy==1\n", true, false, false},
        {"--req other.txt\n", false, false, false},
        {"-r absent.txt\n", false, false, false},
        {"-r https://x/y.txt\n", false, false, false},
        {"-r requirements.txt\n", false, false, false}, /* a circle */
        {"-c limits.txt\nnumpy==1\n", true, false, false},
    };
    char key[65];

    put("limits.txt", "numpy<2\n");
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct requirements r = scan(cases[i].text, key);
        if (r.fixed != cases[i].fixed || r.local != cases[i].local ||
            r.editable != cases[i].editable)
            fail_msg("'%s': fixed %d local %d editable %d", cases[i].text, r.fixed, r.local,
                     r.editable);
    }
}

/* Does the key change when this file changes? */
static bool depends(const char *text, const char *file)
{
    char before[65], between[65], after[65];

    put(file, "one==1\n");
    scan(text, before);
    scan(text, between);
    assert_string_equal(before, between);
    put(file, "one==2\n");
    scan(text, after);
    return strcmp(before, after) != 0;
}

TEST(the_key_has_what_is_named)
{
    char path[200];

    assert_true(depends("-r files/a.txt\n", "files/a.txt"));
    put("files/a.txt", "-cb.txt\n"); /* beside the file that names it */
    assert_true(depends("--requirement 'files/a.txt'\n", "files/b.txt"));
    assert_false(depends("-r files/a.txt\n", "b.txt"));
    assert_true(depends("./pkg\n", "pkg/sub/x.py"));
    assert_true(depends("./x.whl\n", "x.whl"));
    snprintf(path, sizeof(path), "x @ file://%s/x%%20y.whl ; python_version > '3'\n", dir);
    assert_true(depends(path, "x y.whl"));
    assert_false(depends("./pkg\n", "other.py"));
    setenv("WHICH", "files/c.txt", 1);
    assert_true(depends("-r ${WHICH}\n", "files/c.txt"));
    unsetenv("WHICH");
}

TEST(the_key_has_settings)
{
    char *const one[] = {(char *)"PIP_PRE=1", (char *)"HOME=/x", NULL},
                *const two[] = {(char *)"PIP_PRE=0", (char *)"HOME=/y", NULL},
                *const links[] = {(char *)"PIP_FIND_LINKS=/x", NULL},
                *const limit[] = {(char *)"PIP_CONSTRAINT=limits.txt", NULL};
    char *const *const all[] = {one, one, two, links, limit, limit};
    char keys[ARRAY_SIZE(all)][65];
    bool fixed[ARRAY_SIZE(all)];

    for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
        struct requirements r;
        put("limits.txt", i + 1 < ARRAY_SIZE(all) ? "numpy<2\n" : "numpy<3\n");
        requirements_init(&r);
        requirements_add_settings(&r, all[i]);
        requirements_key(&r, keys[i]);
        fixed[i] = r.fixed;
        requirements_done(&r);
    }
    assert_string_equal(keys[0], keys[1]);
    assert_string_not_equal(keys[1], keys[2]);
    assert_string_not_equal(keys[4], keys[5]);
    assert_false(fixed[3]);
}

TEST(names_are_compared_as_pip_does)
{
    struct requirements r;

    put("requirements.txt", "Ruamel.Yaml_clib==1\nnumpy==1\npandas>=1\n");
    requirements_init(&r);
    requirements_read(&r, "requirements.txt");
    assert_true(requirements_names(&r, STR("ruamel-yaml.clib")));
    assert_true(requirements_names(&r, STR("NumPy")));
    assert_false(requirements_names(&r, STR("nump")));
    assert_false(requirements_names(&r, STR("pandas")));
    requirements_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(which_lines_are_exact),
        cmocka_unit_test(the_key_has_what_is_named),
        cmocka_unit_test(the_key_has_settings),
        cmocka_unit_test(names_are_compared_as_pip_does),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
