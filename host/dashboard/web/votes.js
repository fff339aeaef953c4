// Votes: what each says beyond yes or no. That stands in the body that the voter signed.

import { waits } from "./api.js";

// bodyOf is the body that somebody signed as a vote.
export function bodyOf({ message }) {
  if (typeof message !== "string" || message.length > 65536) return null;
  try {
    return JSON.parse(message);
  } catch {
    return null; // not a body of this interface
  }
}

// reasonOf is why somebody rejected, which stands in the body that he signed.
export function reasonOf(vote) {
  const reason = vote.selection === "VOTE_SELECTION_REJECTED" && bodyOf(vote)?.parameters?.reason;
  return typeof reason === "string" && reason ? reason.slice(0, 2000) : null;
}

// ofAnotherView tells whether somebody approved a waiting activity when it was shown differently. The enclave does not count such an
// approval. Who asked for the activity is taken to mean it whatever it is shown as.
export function ofAnotherView(activity, vote) {
  const seen = bodyOf(vote)?.parameters?.decodedDigest;
  return waits(activity) && Boolean(activity.decodedDigest && seen) && seen !== activity.decodedDigest && vote.selection === "VOTE_SELECTION_APPROVED" && vote.userId !== activity.votes[0].userId;
}
