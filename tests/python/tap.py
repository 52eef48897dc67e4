"""Runs a unittest file and prints TAP, so that each test counts as one in the results."""

import importlib.util
import os
import sys
import traceback
import unittest


class Tap(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.count = 0

    def line(self, ok, test, note=""):
        self.count += 1
        print("%s %d - %s%s" % ("ok" if ok else "not ok", self.count, test.id(), note), flush=True)

    def failed(self, test, err):
        self.line(False, test)
        for text in "".join(traceback.format_exception(*err)).splitlines():
            print("# " + text)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.line(True, test)

    def addError(self, test, err):
        super().addError(test, err)
        self.failed(test, err)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.failed(test, err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.failed(subtest, err)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.line(True, test, " # SKIP " + reason)


def main():
    path = sys.argv[1]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    result = Tap()
    unittest.defaultTestLoader.loadTestsFromModule(module).run(result)
    print("1..%d" % result.count)
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
