"""How not to replace a file. The harness must notice each of these."""
import hashlib
import os
import sys

HOW, TARGET, WANTED, VAULT = sys.argv[1:]


def sound_backup(data):
    name = hashlib.sha256(data).hexdigest()
    folder = os.path.join(VAULT, "objects", name[:2])
    for directory in (VAULT, os.path.dirname(folder), folder):
        os.makedirs(directory, mode=0o700, exist_ok=True)
    path = os.path.join(folder, name)
    with open(path + ".new", "xb", opener=lambda p, flags: os.open(p, flags, 0o600)) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.rename(path + ".new", path)
    for directory in (folder, os.path.dirname(folder), VAULT, os.path.dirname(VAULT)):
        fd = os.open(directory, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)


def in_place(new):
    # The system may write pages out whenever it likes. Here it does so at once.
    fd = os.open(TARGET, os.O_WRONLY | os.O_SYNC)
    os.ftruncate(fd, 0)
    for start in range(0, len(new), 4096):
        os.write(fd, new[start:start + 4096])
    os.fsync(fd)
    os.close(fd)


with open(WANTED, "rb") as file:
    wanted = file.read()
with open(TARGET, "rb") as file:
    sound_backup(file.read())
{"in-place": in_place}[HOW](wanted)
