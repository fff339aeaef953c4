// Makes tronweb.json, what tronweb 6.5.1 builds for the tests of this package and reads back of it:
//
//	npm install tronweb@6.5.1 && node tronweb.cjs >tronweb.json
//
// There is no network in it: the block that a transaction refers to is given.
const { TronWeb, utils } = require('tronweb')

const tw = new TronWeb({ fullHost: 'http://127.0.0.1:9' })
const key = 'abde94314a030ae8860a58db8adde7fc962cca2455db9d2979e480038c49dcbc'
const owner = tw.address.fromPrivateKey(key)
const [other, third, token] = ['TVqmNQUHbSePfCPnFDccj2zfJYXQ4dQao6', 'TNfL6D1eedhMBV9ZnPCyQZyaV2F3Yz7555', 'TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t']
const block = { ref_block_bytes: '5be7', ref_block_hash: 'a1b2c3d4e5f60718', expiration: 1750000060000, timestamp: 1750000000000 }
const edge = { ref_block_bytes: '0000', ref_block_hash: '00000000000000ff', expiration: 1, timestamp: 0 }
const b = tw.transactionBuilder
const at = (blockHeader, permissionId) => ({ blockHeader, ...(permissionId === undefined ? {} : { permissionId }) })

const call = async (what, parameters, options = {}) =>
	(await b._triggerSmartContractLocal(token, what, { ...at(block), ...options }, parameters, owner)).transaction
const permission = (type, permission_name, threshold, keys, operations) => ({ type, permission_name, threshold,
	keys: keys.map(([address, weight]) => ({ address: tw.address.toHex(address), weight })), ...(operations ? { operations: operations.padEnd(64, '0') } : {}) })

const read = {
	transfer: () => b.sendTrx(other, 9999999, owner, at(block)),
	transfer_of_1: () => b.sendTrx(other, 1, owner, at(edge)),
	transfer_of_most: () => b.sendTrx(other, Number.MAX_SAFE_INTEGER, owner, at(block)),
	transfer_by_permission: () => b.sendTrx(other, 5, owner, at(block, 2)),
	transfer_of_another: () => b.sendTrx(owner, 5, other, at(block, 3)),
	transfer_with_memo: async () => b.addUpdateData(await b.sendTrx(other, 7, owner, at(block)), 'grüezi', 'utf8', { txLocal: true }),
	call: () => call('transfer(address,uint256)', [{ type: 'address', value: other }, { type: 'uint256', value: 5000000 }], { feeLimit: 15000000 }),
	call_with_trx: () => call('deposit()', [], { callValue: 1234567, feeLimit: 1 }),
	call_with_token: () => call('deposit()', [], { tokenValue: 77, tokenId: 1002000, permissionId: 2 }),
	delegate_bandwidth: () => b.delegateResource(40000000, other, 'BANDWIDTH', owner, false, undefined, at(block)),
	delegate_locked: () => b.delegateResource(40000000, other, 'ENERGY', owner, true, 28800, at(block)),
	delegate_by_permission: () => b.delegateResource(1000000, third, 'ENERGY', owner, false, undefined, at(block, 5)),
	undelegate_energy: () => b.undelegateResource(40000000, other, 'ENERGY', owner, at(block)),
	undelegate_bandwidth: () => b.undelegateResource(1, third, 'BANDWIDTH', owner, at(block)),
	freeze_energy: () => b.freezeBalanceV2(40000000, 'ENERGY', owner, at(block)),
	freeze_bandwidth: () => b.freezeBalanceV2(1000000, 'BANDWIDTH', owner, at(block, 2)),
	unfreeze_energy: () => b.unfreezeBalanceV2(40000000, 'ENERGY', owner, at(block)),
	unfreeze_bandwidth: () => b.unfreezeBalanceV2(1, 'BANDWIDTH', owner, at(block)),
	permissions: () => b.updateAccountPermissions(owner, permission(0, 'owner', 2, [[owner, 1], [other, 1]]), null,
		[permission(2, 'active0', 2, [[owner, 1], [other, 1], [third, 2]], '7fff1fc0037e')], at(block)),
	permissions_of_witness: () => b.updateAccountPermissions(owner, permission(0, 'owner', 1, [[owner, 1]]), permission(1, 'witness', 1, [[third, 1]]),
		[permission(2, 'a', 1, [[owner, 1]], '7fff1fc0033e'), permission(2, 'ü', 5, [[token, 5]], '02')], at(block)),
}

const refused = {
	account: () => b.createAccount(other, owner, at(block)),
	asset: () => b.sendToken(other, 5, '1002000', owner, at(block)),
	vote: () => b.vote({ [other]: 1 }, owner, at(block)),
	freeze_v1: () => b.freezeBalance(1000000, 3, 'ENERGY', owner, undefined, at(block)),
	unfreeze_v1: () => b.unfreezeBalance('ENERGY', owner, undefined, at(block)),
	withdraw: () => b.withdrawBlockRewards(owner, at(block)),
	withdraw_unfrozen: () => b.withdrawExpireUnfreeze(owner, at(block)),
	cancel_unfreezing: () => b.cancelUnfreezeBalanceV2(owner, at(block)),
	deploy: () => b.createSmartContract({ abi: [], bytecode: '6000', name: 'n', feeLimit: 1000000, userFeePercentage: 0, originEnergyLimit: 1, ...at(block) }, owner),
	rename: () => b.updateAccount('somebody', owner, at(block)),
	brokerage: () => b.updateBrokerage(10, owner, at(block)),
	proposal: () => b.createProposal({ key: 1, value: 1 }, owner, at(block)),
}

const main = async () => {
	const made = async (list, entry) => {
		const out = []
		for (const [name, make] of Object.entries(list)) out.push({ name, ...(await entry(await make())) })
		return '[\n' + out.map((x) => JSON.stringify(x)).join(',\n') + '\n]'
	}
	const good = await made(read, (tx) => ({ raw_data_hex: tx.raw_data_hex, txID: tx.txID,
		signature: utils.crypto.signTransaction(key, { ...tx }).signature[0],
		parsed: utils.deserializeTx.deserializeTransaction(tx.raw_data.contract[0].type, tx.raw_data_hex) }))
	const bad = await made(refused, (tx) => ({ raw_data_hex: tx.raw_data_hex }))
	console.log(`{"made_by": "tronweb ${TronWeb.version}", "private_key": "${key}",\n"read": ${good},\n"refused": ${bad}}`)
}
main()
