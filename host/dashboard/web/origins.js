// Origins as browsers write them: scheme, host and port of a web page. Lists of them are checked line by line before they are saved.

// whyNot says what is wrong with an origin, and how to write it; null if nothing is found. The server checks it again.
function whyNot(text, passkeys) {
  if (text.includes("*")) return "An origin has no wildcard. Write each host on a line of its own.";
  if (/[\s,;]/.test(text)) return "Write each origin on a line of its own.";
  const [, scheme, host, rest] = /^([a-z][a-z0-9+.-]*):\/\/([^/?#\\]*)(.*)$/i.exec(text) ?? [];
  if (scheme === undefined) return `The scheme is missing. Write https://${text.replace(/^[:/]+/, "").replace(/\/.*$/, "")}, or http:// for localhost.`;
  if (!host) return "The host is missing, such as app.example.com.";
  if (host.includes("@")) return "An origin has no user name.";
  const usual = { https: ":443", http: ":80" }[scheme.toLowerCase()];
  const bare = usual && host.endsWith(usual) ? host.slice(0, -usual.length) : host;
  const origin = `${scheme}://${bare}`.toLowerCase();
  if (rest === "/") return `Leave out the slash at the end: ${origin}`;
  if (rest) return `An origin has no path. Leave out “${rest}”: ${origin}`;
  if (bare !== host) return `Leave out ${usual}, which browsers do not write: ${origin}`;
  if (text !== origin) return `Write it in lower case: ${origin}`;
  const port = /:(\d+)$/.exec(host)?.[1];
  if (port !== undefined && !/^[1-9]\d{0,4}$/.test(port)) return `“${port}” is no port.`;
  const name = host.replace(/:\d*$/, "");
  if (passkeys && scheme === "http" && name !== "localhost" && !name.endsWith(".localhost")) return `Only localhost may have http:// here: https://${host}`;
  if (passkeys && /^([\d.]+|\[.*\])$/.test(name)) return "Passkeys do not work on addresses. Write a host name.";
  if (text.length > 256) return "It is longer than 256 characters.";
  if (!URL.canParse(text)) return "This is not an origin. Write it as browsers do, such as https://app.example.com or http://localhost:3000.";
  return null;
}

// checkOrigins gives the lines that are no origins, with their numbers from 1 and what is wrong. Empty lines count, and are not wrong. If
// any is true, a single * stands for every page. With passkeys, only origins on which browsers have passkeys pass.
export function checkOrigins(lines, { any = false, passkeys = false } = {}) {
  const all = lines.map((line, i) => ({ line: i + 1, text: line.trim() })).filter(({ text }) => text);
  return all.flatMap(({ line, text }, i) => {
    const first = all.findIndex((other) => other.text === text);
    const why = first < i ? `This is line ${all[first].line} again.`
      : text === "*" && any ? (all.length > 1 ? "* allows every page, so it must stand alone." : null)
        : whyNot(text, passkeys);
    return why ? [{ line, text, why }] : [];
  });
}

// requireOrigins refuses a field of lines, with what is wrong with each of them.
export function requireOrigins(field, lines, options) {
  const wrong = checkOrigins(lines, options);
  if (wrong.length === 0) return;
  const description = wrong.map(({ line, text, why }) => `Line ${line}, “${text}”: ${why}`).join("\n");
  throw Object.assign(new Error(description), { fields: [{ field, description }] });
}
