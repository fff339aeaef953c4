// Typed data (EIP-712) as who approves should read them: what their types do not name is in the text and in no hash, so no
// signature says it.

const encoding = "PAYLOAD_ENCODING_EIP712";

// The members of the whole, of which the second may be written in either form.
const outermost = ["types", "primaryType", "primary_type", "domain", "message"];

// unnamed lists the paths in a value of a type that the type does not name.
function unnamed(types, type, value, path) {
  if (Array.isArray(value)) return value.flatMap((item, i) => unnamed(types, type, item, `${path}.${i}`));
  const members = Object.hasOwn(types, type) && types[type];
  if (!Array.isArray(members) || value === null || typeof value !== "object") return [];
  return Object.entries(value).flatMap(([name, inner]) => {
    const member = members.find((m) => m.name === name);
    return member ? unnamed(types, member.type.replace(/\[.*$/, ""), inner, `${path}.${name}`) : [`${path}.${name}`];
  });
}

// unsigned lists what of an intent's typed data no signature covers.
export function unsigned(intent) {
  if (intent?.encoding !== encoding) return [];
  const payloads = intent.payloads ?? [intent.payload];
  return payloads.flatMap((text, i) => {
    try {
      const all = JSON.parse(text);
      const { types, primaryType = all.primary_type, domain, message } = all;
      const at = payloads.length > 1 ? `payloads.${i}.` : "";
      const beside = Object.keys(all).filter((name) => !outermost.includes(name)).map((name) => at + name);
      return [...beside, ...unnamed(types, "EIP712Domain", domain, `${at}domain`), ...unnamed(types, primaryType, message, `${at}message`)];
    } catch {
      return []; // refused, or none
    }
  });
}
