#!/bin/sh
# Runs the two jobs of plain.json over SSH without any setup: starts an OpenSSH server on a free port of
# this machine, lists it twice as a machine (two slots), runs the batch and stops the server.
#
#   ./ssh_example.sh            everything goes to a temporary directory, which is removed
set -eu
here=$(cd "$(dirname "$0")" && pwd)
sshd=$(PATH=$PATH:/usr/sbin:/usr/local/sbin command -v sshd) || {
    echo "ssh_example.sh: there is no sshd here; install the package openssh-server" >&2
    exit 1
}
command -v hyperctl >/dev/null || {
    echo "ssh_example.sh: hyperctl is not on the PATH; install Berth, or link the program berth under that name" >&2
    exit 1
}

dir=$(mktemp -d)
server=
finish() {
    if [ -n "$server" ]; then
        kill "$server" 2>/dev/null || true
    fi
    rm -rf "$dir"
}
trap finish EXIT

# ---- a server with one authorized key and its own host key ----
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
ssh-keygen -q -t ed25519 -N '' -f "$dir/host_key"
ssh-keygen -q -t ed25519 -N '' -f "$dir/id"
cp "$dir/id.pub" "$dir/authorized_keys"
if [ "$(id -u)" = 0 ]; then
    mkdir -p /run/sshd
fi
"$sshd" -D -e -f /dev/null -p "$port" -h "$dir/host_key" -o ListenAddress=127.0.0.1 -o PidFile=none -o UsePAM=no \
    -o StrictModes=no -o PasswordAuthentication=no -o "AuthorizedKeysFile=$dir/authorized_keys" 2>"$dir/sshd.log" &
server=$!
n=0
until ssh-keyscan -p "$port" 127.0.0.1 >/dev/null 2>&1; do
    n=$((n + 1))
    [ $n -lt 100 ] || {
        cat "$dir/sshd.log" >&2
        exit 1
    }
    sleep 0.1
done

# ---- the batch ----
python3 - "$here/plain.json" "$dir" "$port" >"$dir/batch.json" <<'PYTHON'
import getpass, json, os, sys

plain, dir_, port = sys.argv[1:]
with open(plain) as f:
    batch = json.load(f)
with open(os.path.join(dir_, "host_key.pub")) as f:
    host_key = " ".join(f.read().split()[:2])
machine = {
    "connection": {"hostname": "127.0.0.1", "port": int(port), "username": getpass.getuser(),
                   "ssh_rsa_file": os.path.join(dir_, "id"), "host_key": host_key},
    "data_dir": os.path.join(dir_, "far"),
}
batch["name"] = "ssh_example"
batch["backend"] = {"type": "remote", "machines": [machine, machine]}
batch["server"] = {"port": 0}
for job in batch["jobs"]:
    job["command"] = "python3 resources/plain_example.py"
    job["assets"] = [os.path.join(os.path.dirname(plain), "plain_example.py")]
json.dump(batch, sys.stdout, indent=4)
PYTHON

hyperctl run --config "$dir/batch.json" --batches-data-dir "$dir/batches"
for job in tol_1 tol_100; do
    printf '%s: ' "$job"
    cat "$dir/batches/ssh_example/$job/stdout"
done
