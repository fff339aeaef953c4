// Package webhooks shows that whoever has subscribed hears of every step of every activity, signed, at least
// once, though receivers fail, hang, close and answer slowly and the host dies: go test ./sim/webhooks
package webhooks
