// Makes jose.json: identity tokens made and altered here, and what the npm package jose says of them.
import { jwtVerify, createLocalJWKSet, exportJWK, importJWK } from 'jose'
import * as crypto from 'node:crypto'
import fs from 'node:fs'
const now = 1767225600, iss = 'https://issuer.test', aud = 'client-1'
const b64 = x => Buffer.from(x).toString('base64url')
const gen = (t, o) => crypto.generateKeyPairSync(t, o)
const pairs = { rsa: gen('rsa', { modulusLength: 2048 }), rsa3: gen('rsa', { modulusLength: 3072 }), small: gen('rsa', { modulusLength: 1024 }),
  three: gen('rsa', { modulusLength: 2048, publicExponent: 3 }),
  ec: gen('ec', { namedCurve: 'P-256' }), ec2: gen('ec', { namedCurve: 'P-256' }), ed: gen('ed25519'), p384: gen('ec', { namedCurve: 'P-384' }), k1: gen('ec', { namedCurve: 'secp256k1' }) }
const jwk = {}
for (const [n, p] of Object.entries(pairs)) jwk[n] = { ...p.publicKey.export({ format: 'jwk' }), kid: n, use: 'sig' }
const pss = { padding: crypto.constants.RSA_PKCS1_PSS_PADDING }
const sign = {
  RS256: (k, d) => crypto.sign('sha256', d, k), RS384: (k, d) => crypto.sign('sha384', d, k), RS512: (k, d) => crypto.sign('sha512', d, k),
  PS256: (k, d) => crypto.sign('sha256', d, { key: k, ...pss, saltLength: 32 }), PS256salt0: (k, d) => crypto.sign('sha256', d, { key: k, ...pss, saltLength: 0 }),
  PS256salt64: (k, d) => crypto.sign('sha256', d, { key: k, ...pss, saltLength: 64 }),
  ES256: (k, d) => crypto.sign('sha256', d, { key: k, dsaEncoding: 'ieee-p1363' }), ES256der: (k, d) => crypto.sign('sha256', d, { key: k, dsaEncoding: 'der' }),
  ES384: (k, d) => crypto.sign('sha384', d, { key: k, dsaEncoding: 'ieee-p1363' }), ES256K: (k, d) => crypto.sign('sha256', d, { key: k, dsaEncoding: 'ieee-p1363' }),
  EdDSA: (k, d) => crypto.sign(null, d, k),
}
const good = { iss, aud, sub: 'user-1', iat: now - 10, exp: now + 300, nonce: 'n' }
const set = { keys: [jwk.rsa, jwk.rsa3, jwk.ec, jwk.ec2, jwk.ed] }
const cases = []
const add = (name, token, keys = set) => cases.push({ name, token, keys })
const text = (h, p, s) => { const d = (typeof h === 'string' ? b64(h) : b64(JSON.stringify(h))) + '.' + (typeof p === 'string' ? b64(p) : b64(JSON.stringify(p))); return d + '.' + b64(s(Buffer.from(d))) }
const tok = (alg, key, p = good, h = {}, how = alg) => text({ alg, kid: key, ...h }, p, d => sign[how](pairs[key].privateKey, d))

for (const [alg, key] of [['RS256', 'rsa'], ['RS256', 'rsa3'], ['PS256', 'rsa'], ['PS256', 'rsa3'], ['ES256', 'ec'], ['ES256', 'ec2'], ['EdDSA', 'ed']]) {
  const t = tok(alg, key)
  add(`good ${alg} ${key}`, t)
  add(`typ ${alg} ${key}`, tok(alg, key, good, { typ: 'JWT' }))
  for (let i = 0; i < 3; i++) { // a bit of each part
    const parts = t.split('.').map(p => Buffer.from(p, 'base64url'))
    parts[i][Math.floor(parts[i].length / 2)] ^= 1
    add(`bit of part ${i} ${alg} ${key}`, parts.map(b64).join('.'))
  }
  add(`other key ${alg} ${key}`, tok(alg, key).replace(/^[^.]+/, b64(JSON.stringify({ alg, kid: key === 'rsa' ? 'rsa3' : key === 'ec' ? 'ec2' : 'rsa' }))))
  add(`unknown kid ${alg} ${key}`, tok(alg, key, good, { kid: 'nobody' }))
  add(`signature empty ${alg} ${key}`, t.replace(/[^.]+$/, ''))
  add(`signature cut ${alg} ${key}`, t.slice(0, -4))
  add(`signature longer ${alg} ${key}`, t + 'AAAA')
  add(`padded ${alg} ${key}`, t + '=')
  add(`four parts ${alg} ${key}`, t + '.AA')
  add(`crit ${alg} ${key}`, tok(alg, key, good, { crit: ['exp'], exp: 1 }))
  add(`crit empty ${alg} ${key}`, tok(alg, key, good, { crit: [] }))
  add(`b64 false ${alg} ${key}`, tok(alg, key, good, { b64: false, crit: ['b64'] }))
  add(`key in header ${alg} ${key}`, tok(alg, key, good, { jwk: jwk.small, jku: 'https://evil.test/jwks' }))
}
for (const a of ['RS256', 'PS256', 'ES256', 'EdDSA', 'none', 'None', 'NONE', '', 'HS256', 'HS512', 'RS384', 'RS512', 'ES384', 'ES256K', 'rs256', 'RS1'])
  for (const key of ['rsa', 'ec', 'ed']) {
    const how = { rsa: 'RS256', ec: 'ES256', ed: 'EdDSA' }[key]
    add(`alg ${a || 'empty'} over ${key}`, tok(a, key, good, {}, how))
    add(`alg ${a || 'empty'} over ${key} unsigned`, text({ alg: a, kid: key }, good, () => Buffer.alloc(0)))
    const spki = pairs[key].publicKey.export({ format: 'pem', type: 'spki' })
    for (const [n, secret] of Object.entries({ pem: spki, der: pairs[key].publicKey.export({ format: 'der', type: 'spki' }), jwk: JSON.stringify(jwk[key]), n: Buffer.from(jwk[key].n || jwk[key].x, 'base64url') }))
      if (a.startsWith('HS')) add(`alg ${a} keyed with ${key}'s public key as ${n}`, text({ alg: a, kid: key }, good, d => crypto.createHmac(a === 'HS256' ? 'sha256' : 'sha512', secret).update(d).digest()))
  }
add('embedded key of the attacker', text({ alg: 'ES256', kid: 'ec', jwk: jwk.k1 }, good, d => sign.ES256(gen('ec', { namedCurve: 'P-256' }).privateKey, d)))
add('salt 0', tok('PS256', 'rsa', good, {}, 'PS256salt0')); add('salt 64', tok('PS256', 'rsa', good, {}, 'PS256salt64')); add('DER signature', tok('ES256', 'ec', good, {}, 'ES256der'))
const claims = {
  'aud array': { ...good, aud: [aud] }, 'aud of two': { ...good, aud: ['other', aud] }, 'aud other': { ...good, aud: 'other' }, 'aud others': { ...good, aud: ['a', 'b'] }, 'aud empty': { ...good, aud: '' },
  'aud empty array': { ...good, aud: [] }, 'aud missing': { ...good, aud: undefined }, 'aud number': { ...good, aud: 1 }, 'aud with a number': { ...good, aud: [1, aud] }, 'aud object': { ...good, aud: { 0: aud } },
  'iss other': { ...good, iss: 'https://evil.test' }, 'iss with slash': { ...good, iss: iss + '/' }, 'iss missing': { ...good, iss: undefined }, 'iss array': { ...good, iss: [iss] }, 'iss number': { ...good, iss: 1 },
  'sub missing': { ...good, sub: undefined }, 'sub empty': { ...good, sub: '' }, 'sub number': { ...good, sub: 7 }, 'sub long': { ...good, sub: 'x'.repeat(256) }, 'sub of 255': { ...good, sub: 'x'.repeat(255) },
  'exp just over': { ...good, exp: now - 60 }, 'exp just not': { ...good, exp: now - 59 }, 'exp long over': { ...good, exp: 1 }, 'exp 0': { ...good, exp: 0 }, 'exp negative': { ...good, exp: -1 }, 'exp missing': { ...good, exp: undefined }, 'exp string': { ...good, exp: String(now + 300) },
  'exp fraction': { ...good, exp: now + 0.5 }, 'exp null': { ...good, exp: null }, 'exp true': { ...good, exp: true }, 'exp array': { ...good, exp: [now + 300] }, 'exp far': { ...good, exp: 99999999999 },
  'iat just ahead': { ...good, iat: now + 60 }, 'iat ahead': { ...good, iat: now + 61 }, 'iat far ahead': { ...good, iat: now + 1e6, exp: now + 2e6 }, 'iat missing': { ...good, iat: undefined }, 'iat string': { ...good, iat: String(now) }, 'iat null': { ...good, iat: null },
  'nbf past': { ...good, nbf: now - 5 }, 'nbf just ahead': { ...good, nbf: now + 60 }, 'nbf ahead': { ...good, nbf: now + 61 }, 'nbf string': { ...good, nbf: String(now) }, 'nbf null': { ...good, nbf: null },
  'nonce number': { ...good, nonce: 5 }, 'more claims': { ...good, realm_access: { roles: ['a', { b: [1, 2] }] }, acr: '0', address: null },
}
for (const [n, p] of Object.entries(claims)) for (const [alg, key] of [['RS256', 'rsa'], ['ES256', 'ec']]) add(`${n} ${alg}`, tok(alg, key, p))
const raw = { 'exp exponent': `{"iss":"${iss}","aud":"${aud}","sub":"u","iat":1,"exp":2e9}`, 'exp twice': `{"iss":"${iss}","aud":"${aud}","sub":"u","iat":1,"exp":1,"exp":2000000000}`, 'sub twice': `{"iss":"${iss}","aud":"${aud}","sub":"u","sub":"v","iat":1,"exp":2000000000}`,
  'sub twice by escape': `{"iss":"${iss}","aud":"${aud}","sub":"u","\\u0073ub":"v","iat":1,"exp":2000000000}`, 'twice inside': `{"iss":"${iss}","aud":"${aud}","sub":"u","iat":1,"exp":2000000000,"x":{"a":1,"a":2}}`, 'array': '[1]', 'text': '"x"', 'null': 'null', 'no JSON': 'x', 'empty': '', 'trailing': `{"iss":"${iss}","aud":"${aud}","sub":"u","iat":1,"exp":2000000000}x`,
  'space around': ` {"iss":"${iss}","aud":"${aud}","sub":"u","iat":1,"exp":2000000000}\n`, 'BOM': `\ufeff{"iss":"${iss}","aud":"${aud}","sub":"u","iat":1,"exp":2000000000}`,
  'deep': `{"iss":"${iss}","aud":"${aud}","sub":"u","iat":1,"exp":2000000000,"x":${'['.repeat(60)}${']'.repeat(60)}}`, 'two objects': `{"iss":"${iss}","aud":"${aud}","sub":"u","iat":1,"exp":2000000000},"value":{}`, 'SUB': `{"iss":"${iss}","aud":"${aud}","SUB":"u","iat":1,"exp":2000000000}` }
for (const [n, p] of Object.entries(raw)) add(`claims ${n}`, text({ alg: 'ES256', kid: 'ec' }, p, d => sign.ES256(pairs.ec.privateKey, d)))
const heads = { 'alg twice': '{"alg":"none","alg":"ES256","kid":"ec"}', 'kid twice': '{"alg":"ES256","kid":"ec2","kid":"ec"}', 'kid number': '{"alg":"ES256","kid":1}', 'no kid': '{"alg":"ES256"}', 'kid empty': '{"alg":"ES256","kid":""}', 'no alg': '{"kid":"ec"}', 'alg null': '{"alg":null,"kid":"ec"}', 'alg array': '{"alg":["ES256"],"kid":"ec"}',
  'typ at+jwt': '{"alg":"ES256","kid":"ec","typ":"at+jwt"}', 'typ jwt': '{"alg":"ES256","kid":"ec","typ":"jwt"}', 'space': ' { "alg" : "ES256" , "kid" : "ec" } ', 'array': '["ES256"]', 'ALG': '{"ALG":"ES256","kid":"ec"}', 'zip': '{"alg":"ES256","kid":"ec","zip":"DEF"}' }
for (const [n, h] of Object.entries(heads)) add(`header ${n}`, text(h, good, d => sign.ES256(pairs.ec.privateKey, d)))
const t = tok('ES256', 'ec')
add('line break', t.replace('.', '.\n')); add('space', ' ' + t); add('two parts', t.split('.').slice(0, 2).join('.')); add('nothing', ''); add('dots', '..'); add('JSON serialization', JSON.stringify({ protected: t.split('.')[0], payload: t.split('.')[1], signature: t.split('.')[2] }))
const one = (k, o = {}) => ({ keys: [{ ...k, ...o }] })
const without = (k, ...names) => { const c = { ...k }; for (const n of names) delete c[n]; return { keys: [c] } }
const sets = {
  'one key': [t, one(jwk.ec)], 'no kid anywhere': [tok('ES256', 'ec', good, { kid: undefined }), without(jwk.ec, 'kid')], 'no kid, one of each': [tok('ES256', 'ec', good, { kid: undefined }), { keys: [jwk.ec, jwk.rsa, jwk.ed] }],
  'no kid, two fit': [tok('ES256', 'ec', good, { kid: undefined }), { keys: [jwk.ec, jwk.ec2] }], 'kid twice': [t, { keys: [jwk.ec, { ...jwk.ec2, kid: 'ec' }] }], 'kid of two types': [t, { keys: [jwk.ec, { ...jwk.rsa, kid: 'ec' }] }],
  'use enc': [t, one(jwk.ec, { use: 'enc' })], 'no use': [t, without(jwk.ec, 'use')], 'alg other': [t, one(jwk.ec, { alg: 'ES384' })], 'alg same': [t, one(jwk.ec, { alg: 'ES256' })], 'key_ops verify': [t, one(jwk.ec, { key_ops: ['verify'] })], 'key_ops sign': [t, one(jwk.ec, { key_ops: ['sign'] })],
  'PS256 of an RS256 key': [tok('PS256', 'rsa'), one(jwk.rsa, { alg: 'RS256' })], 'RS256 of a PS256 key': [tok('RS256', 'rsa'), one(jwk.rsa, { alg: 'PS256' })], 'wrong curve name': [t, one(jwk.ec, { crv: 'P-384' })], 'wrong type': [t, one(jwk.ec, { kty: 'RSA' })],
  'y altered': [t, one(jwk.ec, { y: jwk.ec2.y })], 'key of another': [t, one(jwk.ec2, { kid: 'ec' })], 'small RSA': [tok('RS256', 'small'), one(jwk.small)], 'exponent 3': [tok('RS256', 'three'), one(jwk.three)], 'exponent 1': [tok('RS256', 'rsa'), one(jwk.rsa, { e: 'AQ' })],
  'P-384': [tok('ES384', 'p384'), one(jwk.p384)], 'secp256k1': [tok('ES256K', 'k1'), one(jwk.k1)], 'no keys': [t, { keys: [] }], 'with keys of other kinds': [t, { keys: [{ kty: 'oct', kid: 'h', k: 'AAAA' }, { kty: 'new', kid: 'n' }, jwk.p384, jwk.ec] }],
  'symmetric key of that kid': [text({ alg: 'HS256', kid: 'h' }, good, d => crypto.createHmac('sha256', Buffer.alloc(32)).update(d).digest()), { keys: [{ kty: 'oct', kid: 'h', k: b64(Buffer.alloc(32)) }] }],
}
for (const [n, [token, keys]] of Object.entries(sets)) add(`set ${n}`, token, keys)
const vectors = []
for (const c of cases) {
  let accepted = false, error
  try {
    await jwtVerify(c.token, createLocalJWKSet(c.keys), { issuer: iss, audience: aud, algorithms: ['RS256', 'ES256', 'PS256', 'EdDSA'], clockTolerance: 60, currentDate: new Date(now * 1000), requiredClaims: ['sub', 'iat', 'exp'] })
    accepted = true
  } catch (e) { error = (e.code || e.name) + ': ' + e.message }
  vectors.push({ name: c.name, token: c.token, ...(c.keys === set ? {} : { keys: c.keys }), accepted, ...(error ? { error } : {}) })
}
const version = JSON.parse(fs.readFileSync('node_modules/jose/package.json')).version
fs.writeFileSync('jose.json', JSON.stringify({ made_by: `jose ${version}, node ${process.version}`, now_ms: now * 1000, issuer: iss, audience: aud, keys: set, vectors }, null, 1) + '\n')
console.log(vectors.length, vectors.filter(v => v.accepted).length)
console.log(vectors.filter(v => v.accepted).map(v => v.name).join(' | '))
