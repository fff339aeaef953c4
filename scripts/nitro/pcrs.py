#!/usr/bin/env python3
"""Measures an enclave image: a second opinion on cloister-eif, of which it uses nothing.

    scripts/nitro/pcrs.py IMAGE      prints PCR0, 1, 2 and, of a signed image, 8, each with its value in hex
"""
import base64
import hashlib
import struct
import sys


def measured(*parts):
    inner = hashlib.sha384(b"".join(parts)).digest()
    return hashlib.sha384(bytes(48) + inner).hexdigest()


def sections(raw):
    """Types and contents, found by their own headers from the end of the image's header on."""
    if raw[:4] != b".eif":
        raise ValueError("no enclave image")
    (count,) = struct.unpack_from(">H", raw, 26)
    at = 548
    for _ in range(count):
        kind, _, size = struct.unpack_from(">HHQ", raw, at)
        yield kind, raw[at + 12 : at + 12 + size]
        at += 12 + size
    if at != len(raw):
        raise ValueError("sections do not end where the file does")


def cbor(raw, at=0):
    """One item, of the few types in the signature section: the value, and where it ends."""
    major, n = raw[at] >> 5, raw[at] & 31
    at += 1
    if n >= 24:
        width = {24: 1, 25: 2, 26: 4, 27: 8}[n]
        n = int.from_bytes(raw[at : at + width], "big")
        at += width
    if major == 0:
        return n, at
    if major == 3:
        return raw[at : at + n].decode(), at + n
    if major == 4:
        items = []
        for _ in range(n):
            item, at = cbor(raw, at)
            items.append(item)
        return items, at
    if major == 5:
        entries = {}
        for _ in range(n):
            key, at = cbor(raw, at)
            entries[key], at = cbor(raw, at)
        return entries, at
    raise ValueError("a CBOR type that no signature section has")


def main():
    with open(sys.argv[1], "rb") as f:
        raw = f.read()
    first, application, disks, certificate = [], [], 0, None
    everything = []
    for kind, data in sections(raw):
        if kind in (1, 2, 3):
            everything.append(data)
        if kind in (1, 2) or kind == 3 and disks == 0:
            first.append(data)
        elif kind == 3:
            application.append(data)
        elif kind == 4:
            pem = bytes(cbor(data)[0][0]["signing_certificate"]).decode()
            lines = [line for line in pem.splitlines() if line and not line.startswith("-")]
            certificate = base64.b64decode("".join(lines), validate=True)
        disks += kind == 3
    print("PCR0", measured(*everything))
    print("PCR1", measured(*first))
    print("PCR2", measured(*application))
    if certificate is not None:
        print("PCR8", measured(certificate))


main()
