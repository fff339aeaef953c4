// Package inbox is where the simulator's mail and text messages arrive: an SMTP receiver and an SMS gateway
// of the common kind, and behind them a page and a JSON interface that show what came.
//
// It is for a laptop: it keeps the newest messages in memory, takes them from anybody on this
// machine and shows them to anybody there. What it reads is bounded before it is parsed.
package inbox
