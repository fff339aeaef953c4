package eth

import (
	"strings"
	"sync"

	"cloister/enclave/internal/chain"
)

// A standard is a function that means the same wherever it is called, so that approvers can be told what it does without
// anybody's interface.
type standard struct {
	function
	meaning string
}

// standards are the functions of standards and of the contracts that wallets meet most, with the names that the standards
// give their arguments; and what a call of each is, empty where the name says it.
const standards = `
transfer(address to,uint256 value) ERC20_TRANSFER
approve(address spender,uint256 value) ERC20_APPROVE
transferFrom(address from,address to,uint256 value) ERC20_TRANSFER_FROM
increaseAllowance(address spender,uint256 addedValue) ERC20_APPROVE
increaseApproval(address spender,uint256 addedValue) ERC20_APPROVE
decreaseAllowance(address spender,uint256 subtractedValue) ERC20_DECREASE
permit(address owner,address spender,uint256 value,uint256 deadline,uint8 v,bytes32 r,bytes32 s) ERC20_PERMIT
permit(address holder,address spender,uint256 nonce,uint256 expiry,bool allowed,uint8 v,bytes32 r,bytes32 s) DAI_PERMIT
transferAndCall(address to,uint256 value,bytes data) ERC20_TRANSFER
approveAndCall(address spender,uint256 value,bytes data) ERC20_APPROVE
mint(address to,uint256 value) TOKEN_MINT
burn(uint256 value) TOKEN_BURN
burnFrom(address from,uint256 value) TOKEN_BURN
deposit() WRAP
withdraw(uint256 value) UNWRAP
safeTransferFrom(address from,address to,uint256 tokenId) NFT_TRANSFER
safeTransferFrom(address from,address to,uint256 tokenId,bytes data) NFT_TRANSFER
safeTransferFrom(address from,address to,uint256 id,uint256 value,bytes data) NFT_TRANSFER
safeBatchTransferFrom(address from,address to,uint256[] ids,uint256[] values,bytes data) NFT_TRANSFER
setApprovalForAll(address operator,bool approved) APPROVAL_FOR_ALL
delegate(address delegatee) VOTES_DELEGATE
deposit(uint256 assets,address receiver) VAULT_DEPOSIT
mint(uint256 shares,address receiver) VAULT_DEPOSIT
withdraw(uint256 assets,address receiver,address owner) VAULT_WITHDRAW
redeem(uint256 shares,address receiver,address owner) VAULT_WITHDRAW
approve(address token,address spender,uint160 amount,uint48 expiration) PERMIT2_APPROVE
transferFrom(address from,address to,uint160 amount,address token) PERMIT2_TRANSFER
permit(address owner,((address token,uint160 amount,uint48 expiration,uint48 nonce) details,address spender,uint256 sigDeadline) permitSingle,bytes signature) PERMIT2_PERMIT
permit(address owner,((address token,uint160 amount,uint48 expiration,uint48 nonce)[] details,address spender,uint256 sigDeadline) permitBatch,bytes signature) PERMIT2_PERMIT
lockdown((address token,address spender)[] approvals) PERMIT2_LOCKDOWN
transferOwnership(address newOwner) CONTROL
renounceOwnership() CONTROL
acceptOwnership() CONTROL
setOwner(address newOwner) CONTROL
changeOwner(address newOwner) CONTROL
grantRole(bytes32 role,address account) CONTROL
revokeRole(bytes32 role,address account) CONTROL
renounceRole(bytes32 role,address account) CONTROL
setAuthority(address newAuthority) CONTROL
changeAdmin(address newAdmin) CONTROL
changeProxyAdmin(address proxy,address newAdmin) CONTROL
pause() PAUSE
unpause() PAUSE
upgradeTo(address newImplementation) PROXY_UPGRADE
upgradeToAndCall(address newImplementation,bytes data) PROXY_UPGRADE
upgrade(address proxy,address implementation) PROXY_UPGRADE
upgradeAndCall(address proxy,address implementation,bytes data) PROXY_UPGRADE
changeMasterCopy(address masterCopy) PROXY_UPGRADE
execTransaction(address to,uint256 value,bytes data,uint8 operation,uint256 safeTxGas,uint256 baseGas,uint256 gasPrice,address gasToken,address refundReceiver,bytes signatures) SAFE_EXEC
execTransactionFromModule(address to,uint256 value,bytes data,uint8 operation) SAFE_MODULE_EXEC
execTransactionFromModuleReturnData(address to,uint256 value,bytes data,uint8 operation) SAFE_MODULE_EXEC
approveHash(bytes32 hashToApprove) SAFE_APPROVE_HASH
setup(address[] owners,uint256 threshold,address to,bytes data,address fallbackHandler,address paymentToken,uint256 payment,address paymentReceiver) SAFE_SETUP
addOwnerWithThreshold(address owner,uint256 threshold) CONTROL
removeOwner(address prevOwner,address owner,uint256 threshold) CONTROL
swapOwner(address prevOwner,address oldOwner,address newOwner) CONTROL
changeThreshold(uint256 threshold) CONTROL
enableModule(address module) CONTROL
disableModule(address prevModule,address module) CONTROL
setGuard(address guard) CONTROL
setModuleGuard(address moduleGuard) CONTROL
setFallbackHandler(address handler) CONTROL
multiSend(bytes transactions) SAFE_MULTI_SEND
multicall(bytes[] data) MULTICALL
multicall(uint256 deadline,bytes[] data) MULTICALL
multicall(bytes32 previousBlockhash,bytes[] data) MULTICALL
aggregate((address target,bytes callData)[] calls) CALLS
tryAggregate(bool requireSuccess,(address target,bytes callData)[] calls) CALLS
aggregate3((address target,bool allowFailure,bytes callData)[] calls) CALLS
aggregate3Value((address target,bool allowFailure,uint256 value,bytes callData)[] calls) CALLS
execute(address target,uint256 value,bytes data) EXECUTE
executeBatch(address[] targets,uint256[] values,bytes[] datas) EXECUTE_BATCH
executeBatch((address target,uint256 value,bytes data)[] calls) CALLS
executeBatch((address to,uint256 value,bytes data)[] calls,bytes encoded) CALLS
executeBatch(address account,(address to,uint256 value,bytes data)[] calls,bytes encoded) CALLS
schedule(address target,uint256 value,bytes data,bytes32 predecessor,bytes32 salt,uint256 delay) TIMELOCK
execute(address target,uint256 value,bytes payload,bytes32 predecessor,bytes32 salt) TIMELOCK
`

// known are the standards by their selectors.
var known = sync.OnceValue(func() map[[4]byte]*standard {
	all := map[[4]byte]*standard{}
	for line := range strings.Lines(strings.TrimSpace(standards)) {
		cut := strings.LastIndexByte(line, ' ')
		open := strings.IndexByte(line, '(')
		s := &standard{meaning: strings.TrimSpace(line[cut:])}
		text := line[open:cut]
		s.name, s.inputs = line[:open], parseTuple(&text)
		s.names = s.inputs.names
		signature := s.inputs.appendName([]byte(s.name))
		s.signature = string(signature)
		sum := chain.Keccak(signature)
		all[[4]byte(sum[:4])] = s
	}
	return all
})

// FalseStandard finds a function of an interface that has the selector of a standard function and is another: it would be called by
// a name that nobody gave it. The answers are empty if there is none.
func (i *Interface) FalseStandard() (signature, standard string) {
	for selector, f := range i.functions {
		if s := known()[selector]; s != nil && s.signature != f.signature && (signature == "" || f.signature < signature) {
			signature, standard = f.signature, s.signature
		}
	}
	return signature, standard
}

// parseTuple reads inputs as the table has them, and leaves what follows.
func parseTuple(text *string) *abiType {
	var parts []*abiType
	var names []string
	rest := (*text)[1:]
	for rest[0] != ')' {
		rest = strings.TrimPrefix(rest, ",")
		var typ *abiType
		if rest[0] == '(' {
			typ = parseTuple(&rest)
			if list, ok := strings.CutPrefix(rest, "[]"); ok {
				rest, typ = list, typeOf("tuple[]", typ)
			}
		} else {
			end := strings.IndexByte(rest, ' ')
			typ = typeOf(rest[:end], nil)
			rest = rest[end:]
		}
		end := strings.IndexAny(rest, ",)")
		parts, names = append(parts, typ), append(names, strings.TrimSpace(rest[:end]))
		rest = rest[end:]
	}
	*text = rest[1:]
	t := tupleOf(parts)
	t.names = names
	return t
}
