package policy_test

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/policy"
)

const (
	consensus = policy.ClauseConsensus
	condition = policy.ClauseCondition
	timeOf    = policy.ClauseTime
)

// The mark ^ in a source is where the error must be found; it is taken out.
func TestRefused(t *testing.T) {
	long := func(n int, s, between string) string { return strings.Repeat(s+between, n-1) + s }
	for _, c := range []struct {
		clause policy.Clause
		source string
		want   string // in the message
	}{
		// What is no expression.
		{condition, " ^", "unexpected end"},
		{condition, "true ^true", `unexpected "true", want operator`},
		{condition, "true &&^", "unexpected end, want value"},
		{condition, "^&& true", "want value"},
		{condition, "true ^& true", "unexpected '&', use &&"},
		{condition, "true ^| true", "unexpected '|', use ||"},
		{condition, "1 ^= 1", "unexpected '=', use =="},
		{condition, "1 ==^= 1", "unexpected '=', use =="},
		{condition, "1 !=^= 1", "unexpected '=', use !="},
		{condition, "1 ^=< 1", "unexpected '=', use <="},
		{condition, "1 ^=> 1", "unexpected '=', use >="},
		{condition, "1 <^> 1", `unexpected ">", use !=`},
		{condition, "1 < ^> 1", `unexpected ">", want value`},
		{condition, "true ^and true", `unexpected "and", use &&`},
		{condition, "(true ^AND true)", `unexpected "AND", use &&`},
		{condition, "[true ^or true].count() == 1", `unexpected "or", use ||`},
		{condition, "not ^true", `unexpected "true", use ! for not`},
		{condition, "true && not ^(true)", `unexpected "(", use ! for not`},
		{condition, "NOT ^true", `unexpected "true", use ! for not`},
		{condition, "1 ^not in [1]", `unexpected "not", use !(x in list)`},
		{condition, "1 ^!in [1]", `unexpected "!", use !(x in list)`},
		{condition, "1 ^IN [1]", `unexpected "IN", use in`},
		{condition, "1 ^is 1", `unexpected "is", use ==`},
		{condition, "true &&^& true", "unexpected '&'"},
		{condition, "eth.tx.to == ^\"0xabc\"", "strings stand between single quotes"},
		{condition, "eth.tx.to == ^“0xabc”", "strings stand between single quotes"},
		{condition, "eth.tx.to == ^`0xabc`", "strings stand between single quotes"},
		{condition, "eth.tx.to == ^'0xabc", "the string does not end"},
		{condition, "'it\\'^s' == ''", "unexpected"},
		{condition, "eth.tx.value == 0^x10", "decimal digits only; addresses and data stand between single quotes"},
		{condition, "eth.tx.value == 1^_000", "decimal digits only, without an exponent, _ or a unit"},
		{condition, "eth.tx.value == 1^eth", "decimal digits only"},
		{condition, "eth.tx.value == 1^e5", "decimal digits only"},
		{condition, "eth.tx.value == 1.^5", "numbers are whole; amounts are in the chain's smallest unit (wei, lamports, satoshi)"},
		{condition, "eth.tx.value < 0.^1", "numbers are whole"},
		{condition, "eth.tx.value < ^.1", "numbers are whole"},
		{condition, "wallet.^5 == ''", `unexpected "5", want name`},
		{condition, "1 < ^.x", `unexpected ".", want value`},
		{condition, "eth.tx.value ^+ 1 > 2", "unexpected '+', there is no arithmetic"},
		{condition, "eth.tx.value ^- 1 > 2", `unexpected "-", there is no arithmetic`},
		{condition, "eth.tx.value ^* 2 > 2", "unexpected '*', there is no arithmetic"},
		{condition, "-^eth.tx.value > 2", "want integer"},
		{condition, "-^-1 > 2", "want integer"},
		{condition, "true ^? true : false", "unexpected '?'"},
		{condition, "true ^// comment", "unexpected '/', there is no arithmetic"},
		{condition, "^{ id: 'abc' }", "unexpected '{'"},
		{condition, "1 < 2 ^== true", "cannot be chained; join them with &&"},
		{condition, "1 in [1] ^in [true]", "cannot be chained"},
		{condition, "(true && true^", `want ")"`},
		{condition, "(true^]", `want ")"`},
		{condition, "^) true", "want value"},
		{condition, "^in [1]", "want value"},
		{condition, "[1, 2 == 1^", `want "]"`},
		{condition, "[^,] == 1", "want value"},
		{condition, "[1,^,2].count() == 1", "want value"},
		{condition, "'abc'[^] == 'a'", "want value"},
		{condition, "'abc'[1..^] == 'a'", "want value"},
		{condition, "'abc'[^..1] == 'a'", "want value"},
		{condition, "'abc'[0..1^..2] == 'a'", `want "]"`},
		{condition, "wallet.^'id' == ''", "want name"},
		{condition, "wallet.^(id) == ''", "want name"},
		{condition, "activity.kind.^size() == 1", "there is no function size"},
		{condition, "size^([1]) == 1", "want operator or end"},
		{condition, "[1].all(^)", "name of a variable"},
		{condition, "[1].all(x^)", `want ","`},
		{condition, "[1].all(x, ^)", "want value"},
		{condition, "[1].all(^1, true)", "name of a variable"},
		{condition, "[1].all(^wallet, true)", "name of a variable"},
		{condition, "[1].all(^eth, true)", "name of a variable"},
		{condition, "[1].all(^true, true)", "name of a variable"},
		{condition, "[1].all(^in, true)", "name of a variable"},
		{condition, "[1].any(x, true^, true)", `want ")"`},
		{condition, "[1].contains(1^, 2)", `want ")"`},
		{condition, "[1].contains(^)", "want value"},
		{condition, "[1].count(^1) == 1", `want ")"`},
		{timeOf, "Timestamp(^) == time.now", "want string"},
		{timeOf, "Timestamp ^== time.now", `want "("`},
		{timeOf, "Timestamp(^time.now) == time.now", "want string"},
		{timeOf, "CronSpan('0 0 * * *', '1h', 'Etc/UTC'^", `want ")"`},
		{timeOf, "CronSpan('0 0 * * *', '1h', 'Etc/UTC', ^)", "want string"},
		{condition, "eth.tx.value == ^115792089237316195423570985008687907853269984665640564039457584007913129639936", "above 2^256-1"},
		{condition, "eth.tx.value == ^" + strings.Repeat("9", 200), "above 2^256-1"},
		{condition, "eth.tx.value == -^170141183460469231731687303715884105729", "below -2^127"},
		{condition, "'^\xc3\x28' == ''", "not UTF-8"},
		{condition, "^é == ''", "unexpected 'é'"},
		{condition, "true^\x00", "unexpected"},
		{condition, "true^\u00a0", "unexpected"},

		// Bounds.
		{condition, strings.Repeat(" ", 16<<10) + "^true", "longer than 16384 bytes"},
		{condition, strings.Repeat("(", 64) + "^(true" + strings.Repeat(")", 65), "nested deeper than 64"},
		{condition, strings.Repeat("!", 64) + "^!true", "nested deeper than 64"},
		{condition, strings.Repeat("[", 64) + "^[1" + strings.Repeat("]", 65) + ".count() == 1", "nested deeper than 64"},
		{condition, "[" + long(1000, "1", ",") + ",^1].count() == 1", "more than 1000 items"},
		{condition, "[1].any(a, [1].any(b, [1].any(c, [1].any(d, [1].any(^e, true)))))", "more than 4 variables"},

		// What is an expression and means nothing.
		{condition, "wallet_account.^path == ''", "field does not exist: path"},
		{condition, "solana.^message == ''", "field does not exist: message"},
		{condition, "^message == ''", "field does not exist: message"},
		{condition, "activity.params.^amount == 1", "field does not exist: amount"},
		{condition, "wallets.all(w, w.^tags.count() == 0)", "field does not exist: tags"},
		{condition, "activity.^kinds == ''", "field does not exist: kinds"},
		{condition, "activity.kind.^length == 1", "field does not exist: length"},
		{condition, "eth.eip_712.message.^permitted == 1", "field does not exist: permitted"},
		{condition, "eth.eip_712.message['a'].^b == 1", "field does not exist: b"},
		{condition, "[1].^all == true", "field does not exist: all"},
		{condition, "wallet.imported == ^True", "field does not exist: True, use true"},
		{condition, "^FALSE", "field does not exist: FALSE, use false"},
		{condition, "wallet.^True == ''", "field does not exist: True"},
		{condition, "eth.tx.to == ^null", "field does not exist: null; there is no null"},
		{condition, "^activity == ''", "activity is no value"},
		{condition, "^eth == ''", "eth is no value"},
		{condition, "^approvers.count() >= 2", "approvers can be used in the consensus only, not in the condition"},
		{condition, "^credentials.count() >= 2", "credentials can be used in the consensus only"},
		{condition, "^time.now == time.now", "time.now can be used in the time only"},
		{condition, "^Timestamp('2026-01-01T00:00:00Z') == Timestamp('2026-01-01T00:00:00Z')", "Timestamp can be used in the time only"},
		{condition, "true || ^CronSpan('0 0 * * *', '1h', 'Etc/UTC')", "CronSpan can be used in the time only"},
		{consensus, "^activity.action == 'SIGN'", "activity.action can be used in the condition only"},
		{consensus, "approvers.any(u, u.id == ^wallet.id)", "wallet can be used in the condition only"},
		{consensus, "^time.now == time.now", "time.now can be used in the time only"},
		{timeOf, "^activity.action == 'SIGN'", "activity.action can be used in the condition only"},
		{timeOf, "^approvers.count() == 1", "approvers can be used in the consensus only"},
		{condition, "^eth.tx.value", "this is int, not bool"},
		{condition, "^'true'", "this is string, not bool"},
		{condition, "^[true]", "this is list<bool>, not bool"},
		{condition, "^wallet", "this is Wallet, not bool"},
		{condition, "!^1", "this is int, not bool"},
		{condition, "true && ^'x'", "this is string, not bool"},
		{condition, "^0 || true", "this is int, not bool"},
		{condition, "eth.tx.value > ^'1000'", "string has no order; < <= > >= are for numbers and timestamps"},
		{condition, "^eth.tx.to < '0xff'", "hex has no order"},
		{condition, "^true < false", "bool has no order"},
		{condition, "^eth.tx.value == '1000'", "int cannot be compared with string"},
		{condition, "^wallet.exported == 'true'", "bool cannot be compared with string"},
		{condition, "^1 == true", "int cannot be compared with bool"},
		{condition, "^[1] == [1]", "list<int> cannot be compared"},
		{condition, "^wallet == wallet", "Wallet cannot be compared"},
		{condition, "^eth.eip_712.message == ''", "map<string,dynamic> cannot be compared"},
		{condition, "'a' in ^'abc'", "in wants a list"},
		{condition, "'a' in ^eth.eip_712.message", "in wants a list"},
		{condition, "^1 in ['a']", "int cannot be compared with string"},
		{condition, "^wallet in wallets", "Wallet cannot be compared"},
		{condition, "eth.tx.nonce in [1, ^'two']", "a list of int cannot hold string"},
		{condition, "[true, ^1].count() == 2", "a list of bool cannot hold int"},
		{condition, "[[1], ^['a']].count() == 2", "a list of list<int> cannot hold list<string>"},
		{condition, "eth.tx.data.^contains('a9')", "contains is for lists"},
		{condition, "activity.kind.^count() == 1", "count is for lists"},
		{condition, "eth.eip_712.message.^count() == 1", "count is for lists"},
		{condition, "wallet.^any(w, true)", "any is for lists"},
		{condition, "[1].contains(^'a')", "string cannot be compared with int"},
		{condition, "[1].all(x, ^x)", "this is int, not bool"},
		{condition, "[1].filter(x, ^'a').count() == 1", "this is string, not bool"},
		{condition, "^[1].filter(x, x == 1)", "this is list<int>, not bool"},
		{condition, "[1].all(x, true) && ^x == 1", "field does not exist: x"},
		{condition, "^wallet['id'] == ''", "Wallet has no elements"},
		{condition, "^true[0]", "bool has no elements"},
		{condition, "'abc'[^'a'] == ''", "this is string, not int"},
		{condition, "[1][^true] == 1", "this is bool, not int"},
		{condition, "eth.eip_712.message[^1] == 1", "this is int, not string"},
		{condition, "eth.eip_712.message['a'][^true] == 1", "this is bool, neither int nor string"},
		{condition, "^wallet[0..1] == ''", "Wallet cannot be sliced"},
		{condition, "^eth.eip_712.message['a'..'b'] == ''", "cannot be sliced"},
		{condition, "'abc'[^'a'..1] == ''", "this is string, not int"},

		// Times.
		{timeOf, "^time.now == 1", "timestamp cannot be compared with int"},
		{timeOf, "^time.now == '2026-01-01T00:00:00Z'", "timestamp cannot be compared with string"},
		{timeOf, "^time == 1", "time is no value"},
		{timeOf, "^Timestamp('2026-01-01T00:00:00Z')", "this is timestamp, not bool"},
		{timeOf, "^Timestamp('2026-01-01T00:00:00Z', 'x') == time.now", "takes 1 arguments, not 2"},
		{timeOf, "^CronSpan('0 0 * * *', '1h')", "takes 3 arguments, not 2"},
		{timeOf, "time.now > Timestamp(^'2026-01-01T00:00:00-05:00')", "offset of a time must be zero"},
		{timeOf, "time.now > Timestamp(^'2026-01-01T00:00:00')", "not a time"},
		{timeOf, "time.now > Timestamp(^'2026-02-30T00:00:00Z')", "not a time"},
		{timeOf, "time.now > Timestamp(^'2026-01-01 00:00:00Z')", "not a time"},
		{timeOf, "time.now > Timestamp(^'2026-01-01T24:00:00Z')", "not a time"},
		{timeOf, "time.now > Timestamp(^'2026-01-01T00:00:60Z')", "not a time"},
		{timeOf, "time.now > Timestamp(^'2026-01-01T0:00:00Z ')", "not a time"},
		{timeOf, "time.now > Timestamp(^'2026-01-01T00:00:00.Z')", "one to three digits"},
		{timeOf, "time.now > Timestamp(^'2026-01-01T00:00:00.1234Z')", "one to three digits"},
		{timeOf, "time.now > Timestamp(^'2026-01-01T00:00:00,5Z')", "offset of a time must be zero"},
		{timeOf, "time.now > Timestamp(^'2026-01-01T00:00:00Z ')", "offset of a time must be zero"},
		{timeOf, "time.now > Timestamp(^'')", "not a time"},
		{timeOf, "CronSpan(^'*/5 * * * *', '1m', 'Etc/UTC')", "not \"*/5\""},
		{timeOf, "CronSpan(^'0 0 * *', '1m', 'Etc/UTC')", "five fields"},
		{timeOf, "CronSpan(^'0 0 0 * * *', '1m', 'Etc/UTC')", "five fields"},
		{timeOf, "CronSpan(^'@daily', '1m', 'Etc/UTC')", "five fields"},
		{timeOf, "CronSpan(^'60 * * * *', '1m', 'Etc/UTC')", "not within 0 to 59"},
		{timeOf, "CronSpan(^'0 24 * * *', '1m', 'Etc/UTC')", "not within 0 to 23"},
		{timeOf, "CronSpan(^'0 0 0 * *', '1m', 'Etc/UTC')", "not within 1 to 31"},
		{timeOf, "CronSpan(^'0 0 * 13 *', '1m', 'Etc/UTC')", "not within 1 to 12"},
		{timeOf, "CronSpan(^'0 0 * * 7', '1m', 'Etc/UTC')", "not within 0 to 6"},
		{timeOf, "CronSpan(^'0 0 * * MON', '1m', 'Etc/UTC')", "numbers, ranges, lists"},
		{timeOf, "CronSpan(^'0 0 * * 5-1', '1m', 'Etc/UTC')", "not within"},
		{timeOf, "CronSpan(^'0 0 * * 1,', '1m', 'Etc/UTC')", "numbers, ranges, lists"},
		{timeOf, "CronSpan(^'0 0 * * 1-', '1m', 'Etc/UTC')", "numbers, ranges, lists"},
		{timeOf, "CronSpan(^'0 0 * * 1-2-3', '1m', 'Etc/UTC')", "numbers, ranges, lists"},
		{timeOf, "CronSpan(^'0 0 * * *,1', '1m', 'Etc/UTC')", "numbers, ranges, lists"},
		{timeOf, "CronSpan(^'0 0 ? * *', '1m', 'Etc/UTC')", "numbers, ranges, lists"},
		{timeOf, "CronSpan('0 0 * * *', ^'7d1m', 'Etc/UTC')", "at most 7d"},
		{timeOf, "CronSpan('0 0 * * *', ^'0m', 'Etc/UTC')", "above zero"},
		{timeOf, "CronSpan('0 0 * * *', ^'', 'Etc/UTC')", "a duration is such as"},
		{timeOf, "CronSpan('0 0 * * *', ^'1h1d', 'Etc/UTC')", "a duration is such as"},
		{timeOf, "CronSpan('0 0 * * *', ^'1h1h', 'Etc/UTC')", "a duration is such as"},
		{timeOf, "CronSpan('0 0 * * *', ^'90s', 'Etc/UTC')", "a duration is such as"},
		{timeOf, "CronSpan('0 0 * * *', ^'1.5h', 'Etc/UTC')", "a duration is such as"},
		{timeOf, "CronSpan('0 0 * * *', ^'-1h', 'Etc/UTC')", "a duration is such as"},
		{timeOf, "CronSpan('0 0 * * *', ^'99999999999999999999m', 'Etc/UTC')", "a duration is such as"},
		{timeOf, "CronSpan('0 9 * * *', '8h', ^'America/Atlantis')", "no time zone"},
		{timeOf, "CronSpan('0 9 * * *', '8h', ^'')", "no time zone"},
		{timeOf, "CronSpan('0 9 * * *', '8h', ^'Local')", "no time zone"},
		{timeOf, "CronSpan('0 9 * * *', '8h', ^'../../etc/passwd')", "no time zone"},
		{timeOf, "CronSpan('0 9 * * *', '8h', ^'+02:00')", "no time zone"},
	} {
		pos := strings.Index(c.source, "^")
		source := c.source[:pos] + c.source[pos+1:]
		if len(source) > 16<<10 { // cut before anything is looked at
			pos = 16 << 10
		}
		t.Run(shown(c.source), func(t *testing.T) {
			p, err := policy.Compile(c.clause, source)
			f, ok := err.(*fault.Error)
			if p != nil || !ok || f.Code != fault.InvalidArgument {
				t.Fatalf("got %v, %v", p, err)
			}
			if !strings.HasPrefix(f.Message, "invalid policy "+c.clause.String()+": Expression cannot be ") || !strings.Contains(f.Message, c.want) ||
				!strings.HasSuffix(f.Message, fmt.Sprint(" at position ", pos)) {
				t.Errorf("want %q at position %d: %s", c.want, pos, f.Message)
			}
		})
	}
}

func shown(s string) string { return fmt.Sprintf("%.60q", s) }

func TestMessageOfUnknownField(t *testing.T) {
	_, err := policy.Compile(condition, "wallet_account.path == ''")
	if err == nil || err.Error() != "invalid policy condition: Expression cannot be evaluated: field does not exist: path at position 15" {
		t.Fatal(err)
	}
}

func TestEmptyIsTrue(t *testing.T) {
	for _, c := range []policy.Clause{consensus, condition, timeOf} {
		p, err := policy.Compile(c, "")
		if p != nil || err != nil {
			t.Fatal(p, err)
		}
		if yes, err := p.Holds(&policy.Request{}); !yes || err != nil {
			t.Fatal(yes, err)
		}
	}
}

// sample is a request that has a bit of everything that can be had at once, and
// more.
func sample() *policy.Request {
	m := func(name string, v policy.Value) policy.Member { return policy.Member{Name: name, Value: v} }
	beyond := new(big.Int).Lsh(big.NewInt(1), 127)
	return &policy.Request{
		Type: "ACTIVITY_TYPE_SIGN_TRANSACTION_V2", Kind: "SIGN_TRANSACTION", Resource: "PRIVATE_KEY", Action: "SIGN", NowMs: 1773144000000,
		Params: policy.Struct(m("type", policy.String("TRANSACTION_TYPE_ETHEREUM")), m("user_ids", policy.Strings([]string{"u1", "u2"})), m("otp_length", policy.String("nine"))),
		Facts: policy.Facts{
			"wallet":         policy.Struct(m("id", policy.String("w")), m("label", policy.String("käse")), m("imported", policy.Bool(false)), m("exported", policy.Bool(true))),
			"wallet_account": policy.Struct(m("address", policy.Hex("0xABcd")), m("path_indexes", policy.List(policy.Int(44), policy.Int(60))), m("path_hardened", policy.List(policy.Bool(true), policy.Bool(false)))),
			"wallets":        policy.String("not a list"),
			"eth.tx": policy.Struct(m("to", policy.String("0xABCD")), m("from", policy.Value{}), m("data", policy.Hex("0xa9059cbb00")), m("value", policy.BigInt(beyond)),
				m("gas", policy.Int(21000)), m("nonce", policy.BigInt(new(big.Int).Sub(beyond, big.NewInt(1)))), m("function_name", policy.String("transfer")), m("contract_call_args", policy.Map(
					m("to", policy.Hex("0xabcd")), m("value", policy.BigInt(beyond)), m("small", policy.Int(-7)), m("null", policy.Value{}), m("flag", policy.Bool(true)), m("memo", policy.String("7")),
					m("list", policy.List(policy.Int(1), policy.Int(2))), m("mixed", policy.List(policy.Int(1), policy.String("x"))), m("holes", policy.List(policy.Int(1), policy.Value{})),
					m("deep", policy.Map(m("er", policy.List(policy.Map(m("n", policy.Int(3)))))))))),
			"eth.eip_712": policy.Struct(m("domain", policy.Struct(m("chain_id", policy.BigInt(beyond)), m("name", policy.String("Permit2")))),
				m("message", policy.Map(m("huge", policy.BigInt(new(big.Int).Lsh(big.NewInt(1), 256))), m("low", policy.BigInt(new(big.Int).Neg(new(big.Int).Lsh(big.NewInt(1), 128))))))),
			"eth.eip_7702_authorization": policy.Dynamic(policy.Struct(m("address", policy.Hex("0xAA")), m("chain_id", policy.Int(8453)), m("nonce", policy.String("5")))),
			"solana.tx": policy.Struct(m("account_keys", policy.Strings(nil)), m("transfers", policy.List(policy.Struct(m("to", policy.String("a")), m("amount", policy.Int(1))),
				policy.Struct(m("to", policy.String("b")), m("amount", policy.Int(2))), policy.Struct(m("to", policy.String("c"))))),
				m("instructions", policy.List(policy.Struct(m("program_key", policy.String("p")), m("parsed_instruction_data", policy.Struct(m("named_accounts", policy.Map(m("authority", policy.String("x")))))))))),
		}}
}

func TestHolds(t *testing.T) {
	const yes, no = "true", "false"
	for _, c := range []struct{ source, want string }{ // true, false or a part of the error
		{"true", yes}, {"false", no}, {"!true", no}, {"!!true", yes}, {"! ! ! true", no},
		{"true || false && false", yes}, {"(true || false) && false", no}, {"!true || true", yes}, {"!(true || true)", no}, {"!true == false", yes},
		{"1 == 1", yes}, {"1 != 1", no}, {"1 < 2", yes}, {"2 <= 1", no}, {"2 > 1", yes}, {"1 >= 2", no}, {"-1 < 0", yes}, {"-0 == 0", yes}, {"007 == 7", yes},
		{"-170141183460469231731687303715884105728 < -170141183460469231731687303715884105727", yes},
		{"115792089237316195423570985008687907853269984665640564039457584007913129639935 > 170141183460469231731687303715884105727", yes},
		{"9223372036854775808 > 9223372036854775807", yes}, {"-9223372036854775809 < -9223372036854775808", yes}, {"18446744073709551616 != 0", yes},
		{"true == true", yes}, {"true != false", yes}, {"'a' == 'a'", yes}, {"'a' == 'A'", no}, {"'' == ''", yes},
		{"1 in []", no}, {"1 in [2, 1,]", yes}, {"'A' in ['a']", no}, {"[].count() == 0", yes}, {"[].all(x, x == 1)", yes}, {"[].any(x, x == 1)", no}, {"[1, 2].count == 2", yes},
		{"[1, 2, 3].filter(x, x > 1).all(y, y >= 2)", yes}, {"[[1, 2], [3]].any(l, l.contains(3))", yes}, {"[1, 2].all(x, [1, 2, 3].any(y, y > x))", yes},
		{"[1, 2].any(x, [5].any(x, x == 5))", yes}, {"[-1, 5][0] == -1", yes}, {"[1, 340282366920938463463374607431768211456][1] > 1", yes},
		{"'abc'[0] == 'a'", yes}, {"'abc'[1..3] == 'bc'", yes}, {"'abc'[3..3] == ''", yes}, {"'äöü'[1] == 'ö'", yes}, {"'äöü'[1..3] == 'öü'", yes}, {"[1, 2, 3][1..3].count() == 2", yes},

		// Errors absorb, wherever they stand.
		{"true || 'abc'[3] == ''", "out of range"}, {"false && 'abc'[3] == ''", "out of range"}, {"'abc'[3] == '' || true", "out of range"}, {"!('abc'[3] == '')", "out of range"},
		{"[1, 2].any(x, [1][x] == 1)", "out of range"}, {"[0, 1].all(x, [1][x] == 2)", "out of range"}, {"[1].filter(x, [1][x] == 1).count() == 0", "out of range"},
		{"'abc'[-1] == ''", "out of range"}, {"'abc'[2..1] == ''", "out of range"}, {"'abc'[0..4] == ''", "out of range"}, {"'äöü'[3] == ''", "out of range"}, {"'äöü'[0..4] == ''", "out of range"},
		{"[1][1] == 1", "out of range"}, {"[1][-1] == 1", "out of range"}, {"[1][18446744073709551616] == 1", "out of range"}, {"[1][-18446744073709551616] == 1", "out of range"},
		{"[1, 2][2..1].count() == 0", "out of range"}, {"[1][0..2].count() == 0", "out of range"}, {"[1][-1..1].count() == 0", "out of range"}, {"'a'[0..18446744073709551616] == ''", "out of range"},

		// What a request has and has not.
		{"activity.kind == 'SIGN_TRANSACTION' && activity.resource == 'PRIVATE_KEY' && activity.action == 'SIGN' && activity.type == 'ACTIVITY_TYPE_SIGN_TRANSACTION_V2'", yes},
		{"activity.params.type == 'TRANSACTION_TYPE_ETHEREUM' && 'u2' in activity.params.user_ids", yes},
		{"activity.params.encoding == ''", "MissingField: the request has no encoding"}, {"private_key.id == ''", "MissingField: the request has no private_key"},
		{"tron.tx.fee_limit == 0 || true", "MissingField: the request has no tron.tx"}, {"eth.tx.from == ''", "MissingField"}, {"eth.tx.type == ''", "MissingField"},
		{"wallet.label[1] == 'ä' && wallet.label[0..2] == 'kä' && wallet.exported && !wallet.imported", yes},
		{"wallets.all(w, true)", "another type"}, {"activity.params.otp_length == 9", "another type"},
		{"wallet_account.path_indexes[1] == 60 && wallet_account.path_indexes.contains(44) && !wallet_account.path_hardened.all(h, h)", yes},
		{"solana.tx.account_keys.all(k, k == 'x')", yes}, {"solana.tx.transfers[0].amount == 1", yes}, {"solana.tx.transfers.all(t, t.amount > 0)", "MissingField: the request has no amount"},
		{"solana.tx.transfers.any(t, t.to == 'c')", yes}, {"solana.tx.transfers.filter(t, t.to != 'c').all(t, t.amount > 0)", yes},
		{"solana.tx.instructions[0].parsed_instruction_data.named_accounts['authority'] == 'x'", yes}, {"solana.tx.instructions[0].parsed_instruction_data.named_account['authority'] == 'x'", yes},
		{"solana.tx.instructions[0].parsed_instruction_data.named_accounts['payer'] == 'x'", "MissingField: the request has no payer"},

		// Hexadecimal text, marked by the value or by the schema.
		{"eth.tx.to == '0xabcd' && '0xAbCd' == eth.tx.to && eth.tx.to in ['0xaBCD'] && ['0xabCD'].contains(eth.tx.to)", yes}, {"eth.tx.to != '0xabcd'", no},
		{"wallet_account.address == '0xabCD'", yes}, {"eth.tx.data[2..10] == 'A9059CBB'", yes}, {"eth.tx.data[2] == 'A'", yes}, {"eth.tx.to == wallet_account.address", yes},
		{"wallet.id == 'W'", yes}, {"wallet.label == 'Käse'", no}, {"eth.tx.contract_call_args['to'] == '0xABCD'", yes}, {"eth.tx.to == '0xabc`'", no}, {"eth.tx.data == '0xa9059cbb'", no},

		// Numbers that their type cannot hold.
		{"eth.tx.value == 0", "too large"}, {"eth.tx.value > 0 || true", "too large"}, {"eth.tx.nonce == 170141183460469231731687303715884105727", yes},
		{"eth.eip_712.domain.chain_id == 170141183460469231731687303715884105728", yes}, {"eth.eip_712.message['huge'] == 0", "too large"}, {"eth.eip_712.message['low'] == 0", "too large"},
		{"eth.tx.contract_call_args['value'] > 170141183460469231731687303715884105727", yes},

		// Dynamic values.
		{"eth.tx.contract_call_args['small'] == -7 && eth.tx.contract_call_args['small'] == '-7' && '-7' == eth.tx.contract_call_args['small']", yes},
		{"eth.tx.contract_call_args['small'] == '-8'", no}, {"eth.tx.contract_call_args['small'] == '-07'", "two types"}, {"eth.tx.contract_call_args['small'] == 'x'", "two types"},
		{"eth.tx.contract_call_args['small'] == ''", "two types"}, {"eth.tx.contract_call_args['small'] == '-0'", "two types"}, {"eth.tx.contract_call_args['small'] == true", "two types"},
		{"eth.tx.contract_call_args['value'] == '170141183460469231731687303715884105728'", yes}, {"eth.tx.contract_call_args['memo'] == 7", "two types"},
		{"eth.tx.contract_call_args['memo'] == '7'", yes}, {"eth.tx.contract_call_args['memo'] < 8", "two types"}, {"eth.tx.contract_call_args['small'] < 8", yes},
		{"eth.tx.contract_call_args['flag']", yes}, {"!eth.tx.contract_call_args['flag']", no}, {"eth.tx.contract_call_args['small']", "another type"}, {"true && eth.tx.contract_call_args['memo']", "another type"},
		{"eth.tx.contract_call_args['null'] == 0", "MissingField: the request has no null"}, {"eth.tx.contract_call_args['gone'] == 0", "MissingField: the request has no gone"},
		{"eth.tx.contract_call_args['list'].count() == 2 && 2 in eth.tx.contract_call_args['list'] && eth.tx.contract_call_args['list'].contains('1')", yes},
		{"eth.tx.contract_call_args['list'][0..1].all(x, x == 1) && eth.tx.contract_call_args['list'].filter(x, x > 1)[0] == 2", yes},
		{"1 in eth.tx.contract_call_args['mixed']", "two types"}, {"2 in eth.tx.contract_call_args['holes']", "MissingField"}, {"eth.tx.contract_call_args['holes'].any(x, x == 1)", "MissingField"},
		{"eth.tx.contract_call_args['holes'].all(x, true)", yes}, {"eth.tx.contract_call_args['memo'].all(x, true)", "another type"}, {"eth.tx.contract_call_args['small']['x'] == 1", "another type"},
		{"eth.tx.contract_call_args['list']['x'] == 1", "another type"}, {"eth.tx.contract_call_args['deep'][0] == 1", "another type"}, {"eth.tx.contract_call_args['deep']['er'][0]['n'] == '3'", yes},
		{"eth.tx.contract_call_args['memo'][0] == '7'", yes}, {"eth.tx.contract_call_args['deep'] == 1", "two types"}, {"eth.tx.contract_call_args['memo'] in ['7', '8']", yes},
		{"eth.tx.contract_call_args['small'] in ['7', '-7']", yes}, {"eth.tx.contract_call_args['small'] in ['-7', 'x']", "two types"}, {"eth.tx.contract_call_args['small'] == eth.tx.contract_call_args['memo']", "two types"},
		{"eth.eip_7702_authorization.chain_id == '8453' && eth.eip_7702_authorization.chain_id == 8453", yes}, {"eth.eip_7702_authorization.nonce == 5", "two types"},
		{"[eth.tx.contract_call_args['small'], 5].contains(-7)", yes}, {"[eth.tx.contract_call_args['small'], '-7'].all(x, x == eth.tx.contract_call_args['small'])", yes},
		{"[eth.tx.contract_call_args['small'], '-7'][1] == eth.tx.contract_call_args['small'] && eth.tx.contract_call_args['small'] in [eth.tx.contract_call_args['small'], '5']", yes},
		{"[eth.tx.contract_call_args['memo'], '-7'][0] == eth.tx.contract_call_args['small']", "two types"}, {"['0', '-7'].any(x, x == eth.tx.contract_call_args['small'])", yes},
	} {
		t.Run(shown(c.source), func(t *testing.T) {
			got, err := compile(t, condition, c.source).Holds(sample())
			if c.want == yes || c.want == no {
				if err != nil || fmt.Sprint(got) != c.want {
					t.Errorf("%s: %v, %v", c.source, got, err)
				}
				return
			}
			if got || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, %v, want %s", c.source, got, err, c.want)
			}
		})
	}
}

func TestRootQuorumRequestHasNoKind(t *testing.T) {
	r := &policy.Request{Type: "ACTIVITY_TYPE_UPDATE_ROOT_QUORUM", Kind: "UPDATE_ROOT_QUORUM", Resource: "ORGANIZATION", Action: "UPDATE", RootQuorum: true}
	if yes, err := compile(t, condition, "activity.kind == '' && activity.resource == '' && activity.action == '' && activity.type == 'ACTIVITY_TYPE_UPDATE_ROOT_QUORUM'").Holds(r); !yes || err != nil {
		t.Fatal(yes, err)
	}
}

func TestConsensusDoesNotHoldByItself(t *testing.T) {
	if yes, err := compile(t, consensus, "approvers.count() == 0").Holds(sample()); yes || err == nil {
		t.Fatal(yes, err)
	}
}

// What takes too many steps is an error, and soon.
func TestSteps(t *testing.T) {
	list := "[" + strings.TrimSuffix(strings.Repeat("1,", 200), ",") + "]"
	deep := fmt.Sprintf("%s.all(a, %[1]s.all(b, %[1]s.all(c, %[1]s.all(d, true))))", list)
	if yes, err := compile(t, condition, deep).Holds(sample()); yes || err == nil || !strings.Contains(err.Error(), "too many steps") {
		t.Fatal(yes, err)
	}
	if yes, err := compile(t, condition, fmt.Sprintf("%s.all(a, %[1]s.all(b, a == b))", list)).Holds(sample()); !yes || err != nil {
		t.Fatal(yes, err)
	}
	long := sample()
	long.Facts["eth.tx"] = policy.Struct(policy.Member{Name: "data", Value: policy.Hex(strings.Repeat("a", 1<<20))})
	if yes, err := compile(t, condition, "[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, eth.tx.data == eth.tx.data))").Holds(long); yes || err == nil {
		t.Fatal(yes, err)
	}
}

// The longest sources that are taken are also evaluated.
func TestLimitsFit(t *testing.T) {
	for _, source := range []string{
		strings.Repeat("(", 64) + "true" + strings.Repeat(")", 64),
		strings.Repeat("!", 64) + "true",
		"[" + strings.TrimSuffix(strings.Repeat("1,", 1000), ",") + "].contains(1)",
		"[1].any(a, [1].any(b, [1].any(c, [1].any(d, a == b && c == d))))",
		strings.Repeat("true && ", (16<<10-4)/8) + "true",
	} {
		if yes, err := compile(t, condition, source).Holds(sample()); !yes || err != nil {
			t.Errorf("%s: %v, %v", shown(source), yes, err)
		}
	}
	if _, err := policy.Compile(condition, "["+strings.Repeat("[1],", 999)+"[1]].count() == 1 && "+strings.Repeat("1==1&&", 1000)+"true"); err == nil || !strings.Contains(err.Error(), "more than 4096 parts") {
		t.Error(err)
	}
}

func TestPrint(t *testing.T) {
	for source, want := range map[string]string{
		"true||false&&!true":                     "true || false && !true",
		"(true||false)&&(true)":                  "(true || false) && true",
		"(true||false)||true":                    "(true || false) || true",
		"!(1==2)":                                "!(1 == 2)",
		"!((true))==false":                       "!true == false",
		"(1==1)==true":                           "(1 == 1) == true",
		"[ 1 , 2, ].count==-2":                   "[1, 2].count() == -2",
		"eth . tx\n.data[ 0..10 ]=='0xA'":        "eth.tx.data[0..10] == '0xA'",
		"[[1]].any( l ,1 in l)":                  "[[1]].any(l, 1 in l)",
		"(true&&false)[0]==1":                    "",
		"(['a'].filter(x,x=='b')).contains('c')": "['a'].filter(x, x == 'b').contains('c')",
	} {
		p, err := policy.Compile(condition, source)
		if want == "" {
			if err == nil {
				t.Errorf("%s is a program", source)
			}
			continue
		}
		if err != nil || p.String() != want || p.Source() != source {
			t.Errorf("%s: %v, %v, want %s", source, p, err, want)
			continue
		}
		if !p.Same(compile(t, condition, want)) || p.Same(compile(t, condition, "false || false")) || p.Same(nil) {
			t.Errorf("%s is not itself", source)
		}
	}
	if got := compile(t, timeOf, "!CronSpan( '0 9 * * 1-5','8h' , 'Europe/Paris')||time.now<Timestamp('2026-01-01T00:00:00z')").String(); got !=
		"!CronSpan('0 9 * * 1-5', '8h', 'Europe/Paris') || time.now < Timestamp('2026-01-01T00:00:00z')" {
		t.Error(got)
	}
}

// Every field can be read, in its clause and in no other.
func TestFields(t *testing.T) {
	for _, f := range policy.Fields() {
		root, rest, each := strings.Cut(f.Path, "[]")
		source := root
		for i := 0; each; i++ {
			source = fmt.Sprintf("%s[0]%s", source, "")
			root, rest, each = strings.Cut(rest, "[]")
			source += root
		}
		reads := map[string]string{"bool": " == true", "int": " == 1", "uint": " == 1", "string": " == ''", "hex": " == ''", "uuid": " == ''", "email": " == ''", "key": " == ''", "dynamic": " == 1", "timestamp": " == time.now"}
		switch {
		case strings.HasPrefix(f.Type, "list<"):
			source += ".count() == 1"
		case strings.HasPrefix(f.Type, "map<"):
			source += "['a'] == 'b'"
		case reads[f.Type] != "":
			source += reads[f.Type]
		default:
			continue // a struct
		}
		for _, clause := range []policy.Clause{consensus, condition, timeOf} {
			if _, err := policy.Compile(clause, source); (err == nil) != (clause == f.Clause) {
				t.Errorf("%s in %s: %v", source, clause, err)
			}
		}
	}
}
