// The organization that a file of flows begins in, and its first user.
import { readFileSync } from "node:fs";
import { Client } from "./client.mjs";

export const credentials = JSON.parse(readFileSync(process.env.CLOISTER_CREDENTIALS));
export const { organizationId, rootUserId } = credentials;
// Passkeys want a name: the simulator listens where localhost leads.
export const apiUrl = process.env.CLOISTER_URL;
export const base = `${apiUrl}/dashboard/`;
export const root = new Client({ apiUrl, organizationId, ...credentials.rootApiKey });
export const scratch = new URL(".", import.meta.url).pathname;
