import { TxEnvelopeTempo, SignatureEnvelope, KeyAuthorization, AuthorizationTempo } from 'ox/tempo'
import { Secp256k1, Address, Hash } from 'ox'
import { Transaction } from 'viem/tempo'
import { writeFileSync } from 'fs'
const privateKey = '0x33fa40f84e854b941c2b0436dd4a256e1df1cb41b9c1c0ccc8446408c19b8bf9'
const to = '0x2222222222222222222222222222222222222222'
const strip = (h) => h.slice(2)
const out = []
async function add(name, tx, note, refused) {
  const unsigned = await Transaction.serialize(tx)
  const payload = Hash.keccak256(unsigned)
  const s = Secp256k1.sign({ payload, privateKey })
  const v = { name, unsigned_transaction: strip(unsigned) }
  if (note) v.note = note
  if (refused) v.refused = true
  else {
    const env = TxEnvelopeTempo.deserialize(unsigned)
    // what viem itself would sign
    v.viem_digest = strip(TxEnvelopeTempo.getSignPayload(env))
    const signed = TxEnvelopeTempo.serialize(env, { signature: SignatureEnvelope.from(s), feePayerSignature: env.feePayerSignature })
    v.signed_transaction = strip(signed)
    const back = TxEnvelopeTempo.deserialize(signed)
    v.viem_recovers = back.from
  }
  out.push(v)
}
const base = { chainId: 4217, nonce: 7, gas: 100000n, maxFeePerGas: 20000000000n, maxPriorityFeePerGas: 1n, calls: [{ to, data: '0xa9059cbb' + '00'.repeat(64) }] }
await add('full', { ...base, feeToken: '0x20c0000000000000000000000000000000000001', validBefore: 2000000000, validAfter: 1900000000, accessList: [{ address: to, storageKeys: ['0x' + '33'.repeat(32)] }] })
await add('plain', { chainId: 42431, calls: [{ to }] })
await add('nonce_key', { ...base, nonceKey: 5n })
await add('nonce_key_expiring', { ...base, nonce: 0, nonceKey: 2n ** 256n - 1n, validBefore: 1900000025 })
await add('creation_then_call', { ...base, calls: [{ data: '0x6001600155' }, { to, data: '0xdead' }] })
await add('fee_payer_to_sign', { ...base, feeToken: '0x20c0000000000000000000000000000000000001', feePayer: true }, 'viem leaves the fee token out')
await add('fee_payer_null', { ...base, feePayerSignature: null })
const auth = AuthorizationTempo.from({ address: to, chainId: 4217, nonce: 1n })
const signedAuth = AuthorizationTempo.from(auth, { signature: SignatureEnvelope.from(Secp256k1.sign({ payload: AuthorizationTempo.getSignPayload(auth), privateKey })) })
await add('authorization_list', { ...base, authorizationList: [signedAuth] }, undefined, true)
const ka = KeyAuthorization.from({ address: to, chainId: 4217n, type: 'secp256k1', expiry: 2000000000 })
const signedKa = KeyAuthorization.from(ka, { signature: SignatureEnvelope.from(Secp256k1.sign({ payload: KeyAuthorization.getSignPayload(ka), privateKey })) })
await add('key_authorization', { ...base, keyAuthorization: signedKa }, undefined, true)
// raw ox: fee payer signature tuple kept
const env = { ...base, nonce: 7n, type: 'tempo', feePayerSignature: Secp256k1.sign({ payload: '0x' + '11'.repeat(32), privateKey }) }
out.push({ name: 'fee_payer_signed', unsigned_transaction: strip(TxEnvelopeTempo.serialize(env)), refused: true })
const full = out[0]
out.push({ name: 'signed', unsigned_transaction: full.signed_transaction, refused: true })
const e2 = TxEnvelopeTempo.deserialize('0x' + full.unsigned_transaction)
out.push({ name: 'fee_payer_format', unsigned_transaction: strip(TxEnvelopeTempo.serialize(e2, { format: 'feePayer', sender: Address.fromPublicKey(Secp256k1.getPublicKey({ privateKey })) })), refused: true })
writeFileSync('viem.json', JSON.stringify({
  made_by: 'viem 2.57.0 (viem/tempo, ox 0.14.45): unsigned by Transaction.serialize, signed by TxEnvelopeTempo.serialize over a signature of noble (RFC 6979)',
  private_key: strip(privateKey), vectors: out }, null, 1) + '\n')
for (const v of out) console.log(v.name, v.unsigned_transaction.slice(0, 40), v.viem_recovers)
