// An application's front end: the web client as it is published, and nothing else. The steps call it from outside.
import { OtpType, TurnkeyClient } from "@turnkey/core";

// begin makes the client of this page, as an application does when it is opened.
globalThis.begin = async (config) => {
  const client = new TurnkeyClient(config);
  await client.init();
  Object.assign(globalThis, { client, OtpType });
};

// nonceOf binds an identity token to a key: hex of SHA-256 of the key's own hex.
globalThis.nonceOf = async (publicKey) => {
  const sum = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(publicKey));
  return [...new Uint8Array(sum)].map((b) => b.toString(16).padStart(2, "0")).join("");
};

document.documentElement.dataset.ready = "yes";
