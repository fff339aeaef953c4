// An application's front end by the published React kit, with nothing of its own on the screen. The steps call what the kit's hook gives.
import { decryptSecretBundle, encryptSecretToBundle, generateP256KeyPair } from "@turnkey/crypto";
import { TurnkeyProvider, useTurnkey } from "@turnkey/react-wallet-kit";
import { createElement } from "react";
import { createRoot } from "react-dom/client";

globalThis.bundles = { decryptSecretBundle, encryptSecretToBundle, generateP256KeyPair };

function Held() {
  globalThis.kit = useTurnkey();
  return createElement("p", { id: "state" }, `${kit.clientState} ${kit.authState}`);
}

globalThis.begin = (config) => {
  createRoot(document.body.appendChild(document.createElement("div"))).render(createElement(TurnkeyProvider, { config }, createElement(Held)));
};

document.documentElement.dataset.ready = "yes";
