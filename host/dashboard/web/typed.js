// Typed data (EIP-712) as who approves should read them: what their types do not name is in the text and in no hash, so no
// signature says it.

const encoding = "PAYLOAD_ENCODING_EIP712";

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
      const { types, primaryType, domain, message } = JSON.parse(text);
      const at = payloads.length > 1 ? `payloads.${i}.` : "";
      return [...unnamed(types, "EIP712Domain", domain, `${at}domain`), ...unnamed(types, primaryType, message, `${at}message`)];
    } catch {
      return []; // refused, or none
    }
  });
}
