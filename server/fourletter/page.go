package fourletter

import (
	"bufio"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"zkd/server/auth"
)

// page is an answer being written. Its writer keeps the first error, which Answer returns; the methods pass none on.
type page struct {
	out     *bufio.Writer
	scratch []byte
}

func (p *page) str(s ...string) {
	for _, part := range s {
		_, _ = p.out.WriteString(part) // the writer keeps the error
	}
}

func (p *page) bytes(b []byte) {
	_, _ = p.out.Write(b) // the writer keeps the error
	p.scratch = b[:0]
}

func (p *page) num(v int64)     { p.bytes(strconv.AppendInt(p.scratch, v, 10)) }
func (p *page) hex(v int64)     { p.bytes(strconv.AppendUint(p.scratch, uint64(v), 16)) }
func (p *page) float(v float64) { p.str(javaDouble(v)) }

// appendFigure appends the value of a figure.
func appendFigure(b []byte, f *Figure) []byte {
	switch {
	case f.Text != "":
		return append(b, f.Text...)
	case f.Float && f.Java:
		return append(b, javaDouble(f.Decimals)...)
	case f.Float:
		return strconv.AppendFloat(b, f.Decimals, 'f', -1, 64)
	}
	return strconv.AppendInt(b, f.Whole, 10)
}

// line writes a text and a number as one line.
func (p *page) line(key string, v int64) {
	p.str(key)
	p.num(v)
	p.str("\n")
}

// remote writes an address as Java's InetSocketAddress.toString does for one without a name.
func (p *page) remote(a netip.AddrPort) {
	host := auth.HostAddress(a.Addr())
	if a.Addr().Unmap().Is6() {
		host = "[" + host + "]"
	}
	p.str("/", host, ":")
	p.num(int64(a.Port()))
}

// date writes a time as Java's Date.toString does.
func (p *page) date(t time.Time) { p.str(t.Format("Mon Jan 02 15:04:05 MST 2006")) }

// JavaDouble writes a number as Java's Double.toString does, for whoever shows what ZooKeeper does.
func JavaDouble(v float64) string { return javaDouble(v) }

// javaDouble writes a number as Java's Double.toString does: at least one decimal, and scientific from 10^7 on and
// below 10^-3.
func javaDouble(v float64) string {
	if a := math.Abs(v); v == 0 || a >= 1e-3 && a < 1e7 {
		s := strconv.FormatFloat(v, 'f', -1, 64)
		if !strings.Contains(s, ".") {
			s += ".0"
		}
		return s
	}
	if math.IsNaN(v) {
		return "NaN"
	}
	if math.IsInf(v, 0) {
		return strings.TrimPrefix(strings.Replace(strconv.FormatFloat(v, 'g', -1, 64), "Inf", "Infinity", 1), "+")
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(v, 'e', -1, 64), "e")
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	sign := strings.TrimSuffix(exponent[:1], "+")
	return mantissa + "E" + sign + strings.TrimLeft(exponent[1:], "0")
}
