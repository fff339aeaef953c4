package kms

import (
	"bytes"
	"errors"
)

// The tags that an answer holds, with the bit for what is made of parts.
const (
	constructed = 0x20
	tagInteger  = 0x02
	tagOctets   = 0x04
	tagNull     = 0x05
	tagOID      = 0x06
	tagSequence = 0x30
	tagSet      = 0x31
	tagContext0 = 0xa0
	tagContext1 = 0xa1
)

// maxDepth and maxNodes bound what is read; an answer has 9 and some 40.
const (
	maxDepth = 16
	maxNodes = 64
)

var (
	errBER   = errors.New("the key service's answer is not BER")
	errShape = errors.New("the key service's answer is not EnvelopedData as it writes it")
)

// A node is one element of BER (X.690): the tag's one byte, and contents or parts.
type node struct {
	tag     byte
	content []byte
	nodes   []node
}

func (n node) isTagged(tag byte, content []byte) bool {
	return n.tag == tag && bytes.Equal(n.content, content)
}

// children are the parts of an element that has this tag and so many parts, or nil.
func (n node) children(tag byte, count int) []node {
	if n.tag != tag || len(n.nodes) != count {
		return nil
	}
	return n.nodes
}

// readNode reads one element. Lengths are definite in their shortest form or, of
// what is made of parts, indefinite: the service writes both.
func readNode(b []byte, depth int) (n node, rest []byte, err error) {
	if depth > maxDepth || len(b) < 2 || b[0]&0x1f == 0x1f || b[0] == 0 {
		return n, nil, errBER
	}
	n.tag = b[0]
	if b[1] == 0x80 {
		if n.tag&constructed == 0 {
			return n, nil, errBER
		}
		rest = b[2:]
		for !bytes.HasPrefix(rest, []byte{0, 0}) {
			if rest, err = n.readChild(rest, depth); err != nil {
				return n, nil, err
			}
		}
		return n, rest[2:], nil
	}
	length, body, ok := readLength(b[1:])
	if !ok || length > len(body) {
		return n, nil, errBER
	}
	n.content, rest = body[:length], body[length:]
	if n.tag&constructed == 0 {
		return n, rest, nil
	}
	for inner := n.content; len(inner) > 0; {
		if inner, err = n.readChild(inner, depth); err != nil {
			return n, nil, err
		}
	}
	return n, rest, nil
}

func (n *node) readChild(b []byte, depth int) (rest []byte, err error) {
	child, rest, err := readNode(b, depth+1)
	if err != nil || len(n.nodes) == maxNodes {
		return nil, errBER
	}
	n.nodes = append(n.nodes, child)
	return rest, nil
}

// readLength takes up to two bytes of length; an answer is not longer.
func readLength(b []byte) (length int, rest []byte, ok bool) {
	switch {
	case b[0] < 0x80:
		return int(b[0]), b[1:], true
	case b[0] == 0x81 && len(b) >= 2 && b[1] >= 0x80:
		return int(b[1]), b[2:], true
	case b[0] == 0x82 && len(b) >= 3 && b[1] > 0:
		return int(b[1])<<8 | int(b[2]), b[3:], true
	}
	return 0, nil, false
}
