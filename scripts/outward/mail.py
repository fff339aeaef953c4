"""Mail servers for real_test.go of enclave/internal/netclient: aiosmtpd at four doors of 127.0.0.1.

    mail.py CERTIFICATE KEY

Prints a line of JSON with the ports, then one for every message that arrives. Ends when its input ends.
"""

import asyncio
import json
import ssl
import sys

from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword


class Box:
    def __init__(self, door):
        self.door = door

    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.startswith("nobody@"):
            return "550 5.1.1 no such mailbox"
        if address.startswith("later@"):
            return "451 4.2.1 try later"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        if any(a.startswith("spam@") for a in envelope.rcpt_tos):
            return "554 5.7.1 refused"
        say({"door": self.door, "user": session.auth_data, "from": envelope.mail_from, "to": envelope.rcpt_tos,
             "content": envelope.original_content.decode("ascii")})
        return "250 2.0.0 queued"


def say(what):
    print(json.dumps(what), flush=True)


def check(server, session, envelope, mechanism, proof):
    good = isinstance(proof, LoginPassword) and (proof.login, proof.password) == (b"user", b"pass word")
    return AuthResult(success=good, handled=False, auth_data="user")


async def main(certificate, key):
    loop = asyncio.get_running_loop()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    common = {"hostname": "localhost", "authenticator": check, "auth_required": True}
    upgraded = {"tls_context": context, "require_starttls": True, "auth_require_tls": True}
    doors = {
        "starttls": (upgraded, None),
        "login": ({**upgraded, "auth_exclude_mechanism": ["PLAIN"]}, None),
        "tls": ({"auth_require_tls": False}, context),  # it does not know that it is behind TLS
        "plain": ({"auth_require_tls": False}, None),
    }
    servers, ports = [], {}
    for door, (settings, outer) in doors.items():
        made = await loop.create_server(lambda door=door, settings=settings: SMTP(Box(door), loop=loop, **common, **settings),
                                        "127.0.0.1", 0, ssl=outer)
        servers.append(made)
        ports[door] = made.sockets[0].getsockname()[1]
    say(ports)
    await loop.run_in_executor(None, sys.stdin.read)
    for s in servers:
        s.close()


asyncio.run(main(*sys.argv[1:3]))
