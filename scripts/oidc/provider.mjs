// A certified OpenID provider over TLS, for one client of each algorithm. Its forms let anybody in.
//
//   node provider.mjs ISSUER CERTIFICATE KEY     prints its port and serves until its input ends
import fs from "node:fs";
import https from "node:https";
import { generateKeyPairSync } from "node:crypto";
import { Provider } from "oidc-provider";

const [issuer, certificate, key] = process.argv.slice(2);
const jwk = (kid, alg, type, options) => ({ ...generateKeyPairSync(type, options).privateKey.export({ format: "jwk" }), kid, alg, use: "sig" });
const client = (id, alg) => ({
  client_id: id,
  redirect_uris: ["https://app.example/back"],
  response_types: ["code"],
  grant_types: ["authorization_code"],
  token_endpoint_auth_method: "none",
  id_token_signed_response_alg: alg,
});

const provider = new Provider(issuer, {
  clients: [client("rs256", "RS256"), client("es256", "ES256"), client("ps256", "PS256"), client("eddsa", "EdDSA")],
  jwks: {
    keys: [
      jwk("r", "RS256", "rsa", { modulusLength: 2048 }),
      jwk("p", "PS256", "rsa", { modulusLength: 2048 }),
      jwk("e", "ES256", "ec", { namedCurve: "P-256" }),
      jwk("d", "EdDSA", "ed25519", {}),
    ],
  },
  enabledJWA: { idTokenSigningAlgValues: ["RS256", "PS256", "ES256", "EdDSA"] },
  pkce: { required: () => true },
  cookies: { keys: ["of a test"] },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
});

const server = https.createServer({ cert: fs.readFileSync(certificate), key: fs.readFileSync(key) }, provider.callback());
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
process.stdin.on("end", () => process.exit()).resume();
