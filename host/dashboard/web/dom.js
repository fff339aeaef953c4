// Elements, made without parsing text as markup.

const svgNames = new Set(["svg", "path", "rect", "circle", "g", "line", "text", "defs", "pattern"]);
const asProperty = new Set(["value", "checked", "disabled", "selected", "required", "open", "hidden", "indeterminate"]);

// h makes an element. Of properties, those that begin with "on" are listeners, null and false leave the attribute out.
// Children are elements, texts, lists of those, or nothing. A tag such as svg:a is of SVG where HTML has one of the same name.
export function h(tag, properties, ...children) {
  const bare = tag.replace("svg:", "");
  const node = bare !== tag || svgNames.has(tag) ? document.createElementNS("http://www.w3.org/2000/svg", bare) : document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (asProperty.has(name)) node[name] = value;
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  fill(node, children);
  return node;
}

// fill replaces what is in a node.
export function fill(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
  return node;
}

let made = 0;
// unique is an id for an element that another one refers to.
export const unique = (stem) => `${stem}-${++made}`;

const drawings = {
  copy: "M9 9h10v11H9zM5 15V4h10",
  check: "M5 12.5l4.5 4.5L19 7.5",
  menu: "M4 7h16M4 12h16M4 17h16",
  close: "M6 6l12 12M18 6L6 18",
  overview: "M4 20V11a8 8 0 0 1 16 0v9M9.5 20v-8a2.5 2.5 0 0 1 5 0v8",
  approvals: "M20 12v6a2 2 0 0 1-2 2H6a2 2 0 0 1-2-2V6a2 2 0 0 1 2-2h9M8.500 11l3.500 3.500L21 5.500",
  activities: "M4 6h16M4 12h10M4 18h7M17 15v6M14 18h6",
  users: "M9 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7zM2.5 20c.5-4 3-6 6.500-6s6 2 6.500 6M16 4.500a3.500 3.500 0 0 1 0 6M18 14.500c2 .7 3.200 2.500 3.500 5.500",
  suborganizations: "M9 4h6v5H9zM3 15h6v5H3zM15 15h6v5h-6zM12 9v3M6 15v-3h12v3",
  wallets: "M4 7.500A2.500 2.500 0 0 1 6.500 5H18v3M4 7.500V18a2 2 0 0 0 2 2h14V8H5M16.500 14h.01",
  privatekeys: "M8 16a4 4 0 1 1 3.500-6L20 18.500V21h-3.500v-2.500H14V16h-2.500l-1-1M7.500 11.500h.01",
  addressbook: "M6 3h13v18H6zM3.500 8h4M3.500 12h4M3.500 16h4M12.500 11a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM9.500 16c.3-2 1.500-3 3-3s2.700 1 3 3",
  secrets: "M5 11h14v9H5zM8 11V8a4 4 0 0 1 8 0v3M12 14.500v2",
  policies: "M12 3l7 3v5c0 5-3 8-7 10-4-2-7-5-7-10V6zM9 12l2 2 4-4",
  webhooks: "M12 8a3 3 0 1 1 3 3M12 8l-4 8M5 14a3 3 0 1 0 3 4h8M15 11l3 5M18 16a3 3 0 1 1-2 4",
  auth: "M8 15a4 4 0 1 1 3.800-5.200L21 10v3h-2v3h-3v-3h-4.200A4 4 0 0 1 8 15zM8 11h.01",
  programs: "M5 5h14v14H5zM9 2v3M15 2v3M9 19v3M15 19v3M2 9h3M2 15h3M19 9h3M19 15h3M10 10h4v4h-4z",
  billing: "M3 6h18v12H3zM3 10h18M7 15h4",
  settings: "M4 7h9M17 7h3M15 4.500v5M4 17h3M11 17h9M9 14.500v5",
  theme: "M12 4a8 8 0 1 0 0 16zM12 4a8 8 0 0 1 0 16",
  out: "M10 5H5v14h5M14 8l4 4-4 4M18 12H9",
  verify: "M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM16 16l4.5 4.5M8 11l2.200 2.200L14 9",
  back: "M14 6l-6 6 6 6",
  passkey: "M9 11a3.500 3.500 0 1 0 0-7 3.500 3.500 0 0 0 0 7zM3 20c.5-4 3-6 6-6 1 0 2 .2 2.800.6M17 9.500a2.500 2.500 0 0 1 1 4.800V20l-1.500 1.500L15 20l1-1.500-1-1.500 1-1v-1.700a2.500 2.500 0 0 1 1-4.800z",
};

// icon is a line drawing beside a text that says the same.
export const icon = (name) =>
  h("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true", focusable: "false" }, h("path", { d: drawings[name] }));
