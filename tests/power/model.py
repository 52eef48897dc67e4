"""What a disk may hold after a power cut, from the log of record.c.

A write is on the disk for sure once its file was synced after it; a name once its file or its directory
was.  Until then the disk may hold any of the writes since, in any order, block by block; names are made
and removed in order, so the disk holds a beginning of what happened to them (as file systems with a
journal do).  Disk.at(cut, rng) gives one such disk; Disk.cuts() says where cutting is worth while.
"""

import os
from dataclasses import dataclass, field

BLOCK = 4096
ROOT = 0  # stands for the recorded directory itself


@dataclass
class Record:
    op: str
    numbers: list
    data: bytes


def read_log(path):
    records = []
    with open(path, "rb") as f:
        while line := f.readline():
            op, *numbers = line.decode().split()
            data = f.read(int(numbers.pop()))
            records.append(Record(op, [int(n, 8) if op in ("create", "mkdir") and i == 1 else int(n) for i, n in enumerate(numbers)], data))
    return records


@dataclass
class File:
    """The contents of an inode: what is sure, and what came later."""
    mode: int
    sure: bytearray = field(default_factory=bytearray)
    later: list = field(default_factory=list)  # (number of the record, "write"|"truncate", offset or size, bytes)


def apply(content, op, at, data):
    if op == "truncate":
        if at < len(content):
            del content[at:]
        else:
            content.extend(bytes(at - len(content)))
        return
    if at > len(content):
        content.extend(bytes(at - len(content)))
    content[at:at + len(data)] = data


class Disk:
    def __init__(self, records, root_ino, lost_syncs=lambda name: False):
        self.records, self.root_ino, self.lost_syncs = records, root_ino, lost_syncs
        self.rewind()

    def rewind(self):
        self.done = 0
        self.files = {}  # inode → File
        self.dirs = {ROOT: {}}  # inode → {name: inode}, as the programs see them
        self.dir_modes = {ROOT: 0o700}
        self.parents = {}  # inode → (directory, name), the latest
        self.sure_dirs = {ROOT: {}}
        self.later = []  # names: (number, [(directory, name, inode or None)…], inodes concerned)
        self.now = {}  # inode of the log → inode here: a file system uses the numbers of removed files again
        self.made = 0

    # -- the log --

    def new_inode(self, ino):
        self.made += 1
        self.now[ino] = self.made
        return self.made

    def place(self, path):
        """(inode of the directory, last name) of a path."""
        at, *rest = ROOT, *path.split("/")
        for name in rest[:-1]:
            at = self.dirs[at][name]
        return at, rest[-1]

    def name_change(self, number, edits):
        for where, name, ino in edits:
            if ino is None:
                self.dirs[where].pop(name, None)
            else:
                self.dirs[where][name] = ino
                self.parents[ino] = (where, name)
        self.later.append((number, edits))

    def play(self, until):
        """Applies the records before `until`."""
        while self.done < until:
            self.play_one(self.done, self.records[self.done])
            self.done += 1

    def play_one(self, number, r):
        path = r.data.decode() if r.op in ("create", "mkdir", "remove", "link") else None
        try:
            if r.op == "create":
                place, ino = self.place(path), self.new_inode(r.numbers[0])
                self.files[ino] = File(r.numbers[1])
                self.name_change(number, [(*place, ino)])
            elif r.op == "mkdir":
                place, ino = self.place(path), self.new_inode(r.numbers[0])
                self.dirs[ino], self.dir_modes[ino] = {}, r.numbers[1]
                self.name_change(number, [(*place, ino)])
            elif r.op == "link":
                self.name_change(number, [(*self.place(path), self.now[r.numbers[0]])])
            elif r.op == "remove":
                self.name_change(number, [(*self.place(path), None)])
            elif r.op == "rename":
                old, new = (self.place(p.decode()) for p in r.data.split(b"\0"))
                ino = self.dirs[old[0]].get(old[1])
                if ino is not None:
                    self.name_change(number, [(*old, None), (*new, ino)])
        except KeyError:
            return  # below a directory that was there before, such as a socket's
        if r.op in ("write", "truncate") and (ino := self.now.get(r.numbers[0])) in self.files:
            self.files[ino].later.append((number, r.op, r.numbers[1], r.data))
        elif r.op == "sync":
            self.sync(*r.numbers)

    def sync(self, ino, since):
        everything = ino == 0
        ino = ROOT if ino == self.root_ino else self.now.get(ino, -1)
        name = "*" if everything else self.parents.get(ino, (None, ""))[1]
        if self.lost_syncs(name):
            return
        for i, f in self.files.items() if everything else [(ino, self.files[ino])] if ino in self.files else []:
            for number, op, at, data in f.later:
                if number < since:
                    apply(f.sure, op, at, data)
            f.later = [x for x in f.later if x[0] >= since]
        # A name that is sure takes with it whatever happened to the same name before.
        above = set() if everything else self.ancestors(ino)
        names, sure = set(), set()
        for number, edits in reversed(self.later):
            if number < since and (everything or any(x == ino or where == ino or x in above or (where, name) in names
                                                     for where, name, x in edits)):
                sure.add(number)
                names |= {(where, name) for where, name, _ in edits}
        for number, edits in self.later:
            if number in sure:
                self.make_sure(edits)
        self.later = [x for x in self.later if x[0] not in sure]

    def ancestors(self, ino):
        found = set()
        while ino in self.parents:
            ino = self.parents[ino][0]
            found.add(ino)
        return found

    def make_sure(self, edits):
        for where, name, ino in edits:
            entries = self.sure_dirs.setdefault(where, {})
            if ino is None:
                entries.pop(name, None)
            else:
                entries[name] = ino

    # -- disks --

    def cuts(self):
        """Where a cut differs from the one before: around syncs, and around each change of names."""
        found = set()
        for i, r in enumerate(self.records):
            if r.op in ("sync", "rename", "create", "remove"):
                found |= {i, i + 1}
        return sorted(found)

    def at(self, cut, rng, keep):
        """{path: ("dir", mode) or ("file", mode, bytes)} after a cut there.  keep: share of what was not sure."""
        assert cut >= self.done
        self.play(cut)
        dirs = {ino: dict(entries) for ino, entries in self.sure_dirs.items()}
        for _, edits in self.later[:round(len(self.later) * (rng.random() if 0 < keep < 1 else keep))]:
            for where, name, ino in edits:
                if ino is None:
                    dirs.setdefault(where, {}).pop(name, None)
                else:
                    dirs.setdefault(where, {})[name] = ino
        found = {}
        self.walk(dirs, ROOT, "", found, rng, keep)
        return found

    def walk(self, dirs, ino, path, found, rng, keep):
        for name, child in dirs.get(ino, {}).items():
            here = os.path.join(path, name)
            if child in self.dir_modes:
                found[here] = ("dir", self.dir_modes[child])
                self.walk(dirs, child, here, found, rng, keep)
            elif child in self.files:
                f = self.files[child]
                found[here] = ("file", f.mode, self.content(f, rng, keep))

    @staticmethod
    def content(f, rng, keep):
        content = bytearray(f.sure)
        for _, op, at, data in f.later:
            if op == "truncate":
                if rng.random() < keep:
                    apply(content, op, at, data)
                continue
            for start in range(0, len(data), BLOCK):
                if rng.random() < keep:
                    apply(content, op, at + start, data[start:start + BLOCK])
        return bytes(content)


def write_out(found, where):
    for path in sorted(found):
        kind, mode, *content = found[path]
        full = os.path.join(where, path)
        if kind == "dir":
            os.makedirs(full, exist_ok=True)
            os.chmod(full, mode)
        else:
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "wb") as f:
                f.write(content[0].rstrip(b"\0"))  # most of a log is zeros to come
                f.truncate(len(content[0]))
            os.chmod(full, mode)
