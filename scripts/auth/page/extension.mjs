// A wallet as a browser extension is one: it holds an Ethereum key, tells the page about itself (EIP-6963) and signs what the
// page asks it to (EIP-1193). Its user agrees to everything.
import { privateKeyToAccount } from "viem/accounts";

globalThis.installWallet = (key) => {
  const account = privateKeyToAccount(key);
  const answers = {
    eth_accounts: () => [account.address],
    eth_requestAccounts: () => [account.address],
    eth_chainId: () => "0x1",
    personal_sign: ([message]) => account.signMessage({ message }),
  };
  const provider = {
    request: async ({ method, params }) => {
      if (!answers[method]) throw Object.assign(new Error(`${method} is not supported`), { code: 4200 });
      return answers[method](params);
    },
  };
  const info = { uuid: crypto.randomUUID(), name: "A wallet", rdns: "example.wallet", icon: "data:image/svg+xml,<svg/>" };
  addEventListener("eip6963:requestProvider", () => dispatchEvent(new CustomEvent("eip6963:announceProvider", { detail: { info, provider } })));
};
