"""Reads a lease page. It says for each line of its input whether leadership is proven."""
import mmap
import os
import struct
import sys
import time

with open(os.environ["ELECT_LEASE"], "rb") as file:
    page = mmap.mmap(file.fileno(), 64, prot=mmap.PROT_READ)
if page[:8] != b"electpg1":
    sys.exit("lease: ELECT_LEASE names no lease page")
token = struct.unpack_from("<Q", page, 16)[0]


def proven():
    for _ in range(1000):
        before, _, until = struct.unpack_from("<QQq", page, 8)
        if before % 2 == 0 and struct.unpack_from("<Q", page, 8)[0] == before:
            return time.clock_gettime_ns(time.CLOCK_BOOTTIME) < until  # read after the page
    return False  # its writer died while it wrote


for _ in sys.stdin:
    print(token, "proven" if proven() else "over", flush=True)
