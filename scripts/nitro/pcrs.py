#!/usr/bin/env python3
"""Measures an enclave image: a second opinion on cloister-eif, of which it uses nothing.

    scripts/nitro/pcrs.py IMAGE      prints PCR0, 1, 2 and, of a signed image, 8, each with its value in hex, and
                                     SIGNED with the register that is signed, once openssl has verified that
"""
import base64
import hashlib
import os
import struct
import subprocess
import sys
import tempfile


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
    if major == 1:
        return -1 - n, at
    if major == 2:
        return raw[at : at + n], at + n
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


def head(major, n):
    """The first bytes of a CBOR item, of at most 65,535."""
    if n < 24:
        return bytes([major << 5 | n])
    return bytes([major << 5 | 24, n]) if n < 256 else bytes([major << 5 | 25]) + n.to_bytes(2, "big")


def integer(raw):
    """An unsigned number in DER."""
    raw = raw.lstrip(b"\0") or b"\0"
    raw = (b"\0" if raw[0] >= 128 else b"") + raw
    return bytes([2, len(raw)]) + raw


def signed(envelope, pem):
    """What a COSE_Sign1 of ES384 holds, verified by openssl under the certificate's key."""
    (protected, unprotected, payload, raw), end = cbor(envelope)
    if cbor(protected)[0] != {1: -35} or unprotected != {} or len(raw) != 96 or end != len(envelope):
        raise ValueError("not a COSE_Sign1 of ES384")
    text = head(4, 4) + head(3, 10) + b"Signature1"
    for part in protected, b"", payload:
        text += head(2, len(part)) + part
    der = integer(raw[:48]) + integer(raw[48:])
    with tempfile.TemporaryDirectory() as folder:

        def put(name, content):
            path = os.path.join(folder, name)
            with open(path, "wb") as f:
                f.write(content)
            return path

        key = subprocess.run(["openssl", "x509", "-noout", "-pubkey", "-in", put("certificate", pem)], check=True, capture_output=True).stdout
        subprocess.run(
            ["openssl", "dgst", "-sha384", "-verify", put("key", key), "-signature", put("der", bytes([0x30, len(der)]) + der), put("text", text)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
    return cbor(payload)[0]


def main():
    with open(sys.argv[1], "rb") as f:
        raw = f.read()
    first, application, disks, certificate, register = [], [], 0, None, None
    everything = []
    for kind, data in sections(raw):
        if kind in (1, 2, 3):
            everything.append(data)
        if kind in (1, 2) or kind == 3 and disks == 0:
            first.append(data)
        elif kind == 3:
            application.append(data)
        elif kind == 4:
            (entry,), _ = cbor(data)
            pem = bytes(entry["signing_certificate"])
            lines = [line for line in pem.decode().splitlines() if line and not line.startswith("-")]
            certificate = base64.b64decode("".join(lines), validate=True)
            register = signed(bytes(entry["signature"]), pem)
        disks += kind == 3
    print("PCR0", measured(*everything))
    print("PCR1", measured(*first))
    print("PCR2", measured(*application))
    if certificate is not None:
        print("PCR8", measured(certificate))
        print("SIGNED PCR%d %s" % (register["register_index"], bytes(register["register_value"]).hex()))


main()
