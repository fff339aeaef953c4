package inbox

// ReadMail is what arrives by SMTP, for the fuzzer.
var ReadMail = readMail
