// Words made of names of the interface that have none of their own.

const capitals = /\b(api|otp|sms|mfa|ip|tvc|http|grpc|url|moonpay|oauth|webauthn)\b/g;
const mixed = { moonpay: "MoonPay", oauth: "OAuth", webauthn: "WebAuthn" };

// words makes a sentence's beginning of a name of the interface.
export function words(name, prefix = "") {
  const text = name.replace(prefix, "").toLowerCase().replaceAll("_", " ").replace("sub organization", "sub-organization").replace(capitals, (short) => mixed[short] ?? short.toUpperCase());
  return text.charAt(0).toUpperCase() + text.slice(1);
}
