package strictjson

import (
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// append writes v, secrets in it as they are or masked.
func (p *plan) append(dst []byte, v reflect.Value, mask bool) []byte {
	switch p.kind {
	case kindString:
		return AppendString(dst, v.String())
	case kindBool:
		return strconv.AppendBool(dst, v.Bool())
	case kindInt:
		if p.typ.Kind() == reflect.Int32 {
			return strconv.AppendInt(dst, v.Int(), 10)
		}
		return append(strconv.AppendInt(append(dst, '"'), v.Int(), 10), '"')
	case kindUint:
		if p.typ.Kind() == reflect.Uint32 {
			return strconv.AppendUint(dst, v.Uint(), 10)
		}
		return append(strconv.AppendUint(append(dst, '"'), v.Uint(), 10), '"')
	case kindRaw:
		if v.Len() == 0 {
			return append(dst, "null"...)
		}
		return append(dst, v.Bytes()...)
	case kindPtr:
		if v.IsNil() {
			return append(dst, "null"...)
		}
		return p.elem.append(dst, v.Elem(), mask)
	case kindSlice:
		return p.appendArray(dst, v, mask)
	case kindMap:
		return p.appendMap(dst, v, mask)
	}
	return p.appendStruct(dst, v, mask)
}

func (p *plan) appendStruct(dst []byte, v reflect.Value, mask bool) []byte {
	dst = append(dst, '{')
	first := true
	for i := range p.fields {
		f := &p.fields[i]
		value := f.valueIn(v)
		if f.isAbsent(value) {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(dst, f.key...)
		if mask && f.masked {
			dst = append(dst, Masked...)
			continue
		}
		dst = f.plan.append(dst, value, mask)
	}
	return append(dst, '}')
}

func (f *field) isAbsent(v reflect.Value) bool {
	switch {
	case f.plan.kind == kindPtr:
		return v.IsNil()
	case f.plan.kind == kindRaw:
		return v.Len() == 0
	}
	return f.omit && f.plan.empty(v)
}

func (p *plan) appendArray(dst []byte, v reflect.Value, mask bool) []byte {
	dst = append(dst, '[')
	for i := range v.Len() {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = p.elem.append(dst, v.Index(i), mask)
	}
	return append(dst, ']')
}

func (p *plan) appendMap(dst []byte, v reflect.Value, mask bool) []byte {
	names := make([]string, 0, v.Len())
	for it := v.MapRange(); it.Next(); {
		names = append(names, it.Key().String())
	}
	slices.Sort(names)
	dst = append(dst, '{')
	for i, name := range names {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(AppendString(dst, name), ':')
		dst = p.elem.append(dst, v.MapIndex(reflect.ValueOf(name)), mask)
	}
	return append(dst, '}')
}

// AppendString writes s as a JSON string. HTML is not escaped; invalid UTF-8
// becomes U+FFFD.
func AppendString[text string | []byte](dst []byte, s text) []byte {
	dst = append(dst, '"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case plain[c]:
			dst = append(dst, c)
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
			dst = utf8.AppendRune(dst, r)
			i += n - 1
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, `\n`...)
		case c == '\r':
			dst = append(dst, `\r`...)
		case c == '\t':
			dst = append(dst, `\t`...)
		default:
			dst = append(append(dst, `\u00`...), hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return append(dst, '"')
}
