// Address ranges in CIDR notation, as an IP allowlist has them, and the lines of a text that lists them.

// The widest range that the server takes, and how many of each family.
const widest = { 32: 20, 128: 48 };
const mostRanges = 10;
const families = { 32: "IPv4", 128: "IPv6" };

function ipv4(text) {
  const parts = text.split(".");
  if (parts.length !== 4 || parts.some((p) => !/^(0|[1-9]\d{0,2})$/.test(p) || Number(p) > 255)) return null;
  return parts.reduce((sum, p) => sum * 256n + BigInt(p), 0n);
}

function ipv6(text) {
  const last = text.slice(text.lastIndexOf(":") + 1);
  if (last.includes(".")) {
    const four = ipv4(last);
    if (four === null) return null;
    return ipv6(`${text.slice(0, -last.length)}${(four >> 16n).toString(16)}:${(four & 0xffffn).toString(16)}`);
  }
  const halves = text.split("::");
  const groups = halves.map((half) => (half === "" ? [] : half.split(":")));
  const count = groups.flat().length;
  if (halves.length > 2 || groups.flat().some((g) => !/^[\da-f]{1,4}$/i.test(g)) || (halves.length === 2 ? count > 7 : count !== 8)) return null;
  const all = halves.length === 2 ? [...groups[0], ...Array(8 - count).fill("0"), ...groups[1]] : groups[0];
  return all.reduce((sum, g) => sum * 65536n + BigInt(`0x${g}`), 0n);
}

// rangeOf reads a range. A single address is a range of one. It gives null for anything else, also for a prefix that is no number.
export function rangeOf(text) {
  const [address, prefix, ...rest] = text.split("/");
  const four = ipv4(address);
  const bits = four === null ? 128 : 32;
  const value = four ?? (address.includes(":") ? ipv6(address) : null);
  if (value === null || rest.length || (prefix !== undefined && !/^(0|[1-9]\d{0,2})$/.test(prefix)) || Number(prefix ?? 0) > bits) return null;
  const length = Number(prefix ?? bits);
  if (bits === 128 && value >> 32n === 0xffffn) return cut(32, value & 0xffffffffn, Math.max(0, length - 96)); // IPv4 written as IPv6
  return cut(bits, value, length);
}

// cut drops the bits behind the prefix.
const cut = (bits, value, length) => ({ bits, length, value: (value >> BigInt(bits - length)) << BigInt(bits - length) });

// covers tells whether every address of one range is in the other.
export const covers = (outer, inner) => outer.bits === inner.bits && outer.length <= inner.length && cut(inner.bits, inner.value, outer.length).value === outer.value;

const same = (a, b) => covers(a, b) && a.length === b.length;

// linesOf reads a text with one range a line, each with a label behind it or none. It gives the lines that are not empty, with their
// numbers, their rules for the server, and what is wrong with them, if anything.
export function linesOf(text) {
  const seen = [];
  return text.split("\n").map((line, i) => ({ number: i + 1, text: line.trim() })).filter((l) => l.text).map((line) => {
    const [, first, label] = /^(\S+)\s*(.*)$/.exec(line.text);
    const range = rangeOf(first);
    const full = range && !first.includes("/") ? `${first}/${first.includes(":") ? 128 : 32}` : first;
    const rule = { cidr: full, ...(label && { label }) };
    const fault = faultOf(first, range, seen);
    if (range && !seen.some((s) => same(s, range))) seen.push(range);
    return { ...line, range, rule, fault };
  });
}

function faultOf(text, range, seen) {
  if (!range) return `“${text}” is no address or address range. Write it like 192.0.2.0/24 or 2001:db8::/48.`;
  if (range.length < widest[range.bits]) return `“${text}” is too wide. The number after the slash must be at least ${widest[range.bits]}.`;
  const others = seen.filter((s) => s.bits === range.bits);
  return others.length >= mostRanges && !others.some((s) => same(s, range)) ? `A list has at most ${mostRanges} ranges of ${families[range.bits]}.` : null;
}
