package keystore

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/des" //nolint:gosec // files of many years are encrypted by it
	"crypto/hmac"
	"crypto/md5" //nolint:gosec // likewise
	"crypto/pbkdf2"
	"crypto/rc4"  //nolint:gosec // likewise
	"crypto/sha1" //nolint:gosec // likewise
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"hash"
	"unicode/utf16"

	"golang.org/x/crypto/scrypt"
)

// Bounds of what a file may ask for. Java writes 10,000 iterations and OpenSSL 2,048; scrypt takes 128 bytes times N
// times r of memory.
const (
	iterationsMax  = 10_000_000
	scryptBytesMax = 256 << 20
)

// encryption is one way to encrypt by a password: the key, the cipher's and the file's, that a password gives.
type encryption struct {
	derive func(parameters asn1.RawValue, password string, keyBytes, ivBytes int) (key, iv []byte, err error)
	key    int
	block  func(key []byte) (cipher.Block, error) // in CBC, with an initial vector of its block; nil is RC4
}

// The encryptions that Java and OpenSSL write, and wrote, besides PBES2: by the OID's dotted form (RFC 7292 appendix C,
// RFC 8018 appendix A.3).
var encryptions = map[string]encryption{
	"1.2.840.113549.1.12.1.1": {pkcs12Key, 16, nil},
	"1.2.840.113549.1.12.1.2": {pkcs12Key, 5, nil},
	"1.2.840.113549.1.12.1.3": {pkcs12Key, 24, des.NewTripleDESCipher},
	"1.2.840.113549.1.12.1.4": {pkcs12Key, 16, twoKeyTripleDES},
	"1.2.840.113549.1.12.1.5": {pkcs12Key, 16, newRC2},
	"1.2.840.113549.1.12.1.6": {pkcs12Key, 5, newRC2},
	"1.2.840.113549.1.5.3":    {pbkdf1(md5.New), 8, des.NewCipher},
	"1.2.840.113549.1.5.6":    {pbkdf1(md5.New), 8, newRC2},
	"1.2.840.113549.1.5.10":   {pbkdf1(sha1.New), 8, des.NewCipher},
	"1.2.840.113549.1.5.11":   {pbkdf1(sha1.New), 8, newRC2},
}

// The object identifiers of PBES2 and of what it is made of.
const (
	oidPBES2  = "1.2.840.113549.1.5.13"
	oidPBKDF2 = "1.2.840.113549.1.5.12"
	oidScrypt = "1.3.6.1.4.1.11591.4.11"
)

// blockCiphers are the ciphers of PBES2, with the bytes of their keys.
var blockCiphers = map[string]encryption{
	"1.3.14.3.2.7":            {key: 8, block: des.NewCipher},
	"1.2.840.113549.3.7":      {key: 24, block: des.NewTripleDESCipher},
	"2.16.840.1.101.3.4.1.2":  {key: 16, block: aes.NewCipher},
	"2.16.840.1.101.3.4.1.22": {key: 24, block: aes.NewCipher},
	"2.16.840.1.101.3.4.1.42": {key: 32, block: aes.NewCipher},
}

// hashes are the digests of MACs, and of the functions HMAC of PBES2.
var hashes = map[string]func() hash.Hash{
	"1.3.14.3.2.26": sha1.New, "2.16.840.1.101.3.4.2.4": sha256.New224, "2.16.840.1.101.3.4.2.1": sha256.New,
	"2.16.840.1.101.3.4.2.2": sha512.New384, "2.16.840.1.101.3.4.2.3": sha512.New,
	"1.2.840.113549.2.7": sha1.New, "1.2.840.113549.2.8": sha256.New224, "1.2.840.113549.2.9": sha256.New,
	"1.2.840.113549.2.10": sha512.New384, "1.2.840.113549.2.11": sha512.New,
	"2.16.840.1.101.3.4.2.5": sha512.New512_224, "2.16.840.1.101.3.4.2.6": sha512.New512_256,
	"1.2.840.113549.2.12": sha512.New512_224, "1.2.840.113549.2.13": sha512.New512_256,
}

// unknownAlgorithm says that a file uses what cannot be read.
func unknownAlgorithm(id asn1.ObjectIdentifier) error {
	return fmt.Errorf("it is encrypted or signed by an algorithm that cannot be read (%s); "+
		"write it anew with keytool or openssl", id)
}

// decrypt decrypts a record that a password protects. It fails with errPassword if what comes out is none.
func decrypt(algorithm pkix.AlgorithmIdentifier, data []byte, password string) ([]byte, error) {
	plain, err := decryptBytes(algorithm, data, password)
	if err == nil && unmarshal(definite(plain), new(asn1.RawValue)) != nil {
		return nil, errPassword
	}
	return plain, err
}

func decryptBytes(algorithm pkix.AlgorithmIdentifier, data []byte, password string) ([]byte, error) {
	if algorithm.Algorithm.String() == oidPBES2 {
		return decryptPBES2(algorithm.Parameters, data, password)
	}
	e, ok := encryptions[algorithm.Algorithm.String()]
	if !ok {
		return nil, unknownAlgorithm(algorithm.Algorithm)
	}
	if e.block == nil {
		key, _, err := e.derive(algorithm.Parameters, password, e.key, 0)
		if err != nil {
			return nil, err
		}
		stream, err := rc4.NewCipher(key) //nolint:gosec // the file says so
		if err != nil {
			return nil, err
		}
		plain := make([]byte, len(data))
		stream.XORKeyStream(plain, data)
		return plain, nil
	}
	key, iv, err := e.derive(algorithm.Parameters, password, e.key, des.BlockSize)
	if err != nil {
		return nil, err
	}
	return decryptCBC(e.block, key, iv, data)
}

// decryptCBC decrypts and takes the padding off.
func decryptCBC(newCipher func([]byte) (cipher.Block, error), key, iv, data []byte) ([]byte, error) {
	block, err := newCipher(key)
	if err != nil {
		return nil, err
	}
	size := block.BlockSize()
	if len(iv) != size || len(data) == 0 || len(data)%size != 0 {
		return nil, errors.New("it is damaged; write it anew")
	}
	plain := make([]byte, len(data))
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(plain, data)
	padding := int(plain[len(plain)-1])
	if padding == 0 || padding > size {
		return nil, errPassword
	}
	for _, b := range plain[len(plain)-padding:] {
		if int(b) != padding {
			return nil, errPassword
		}
	}
	return plain[:len(plain)-padding], nil
}

// unmarshal reads all of der into v.
func unmarshal(der []byte, v any) error {
	rest, err := asn1.Unmarshal(der, v)
	if err != nil {
		return fmt.Errorf("it is damaged; write it anew: %w", err)
	}
	if len(rest) != 0 {
		return errors.New("it is damaged; write it anew: bytes are left over")
	}
	return nil
}

// saltAndCount are the parameters of PBES1 and of PKCS12.
type saltAndCount struct {
	Salt       []byte
	Iterations int
}

// read reads the parameters.
func (p *saltAndCount) read(parameters asn1.RawValue) error {
	if err := unmarshal(parameters.FullBytes, p); err != nil {
		return err
	}
	return checkIterations(p.Iterations)
}

// checkIterations refuses a count that a start would take too long for.
func checkIterations(n int) error {
	if n < 1 || n > iterationsMax {
		return fmt.Errorf("it asks for %d iterations; write it anew", n)
	}
	return nil
}

// pkcs12Key derives as RFC 7292 has it.
func pkcs12Key(parameters asn1.RawValue, password string, keyBytes, ivBytes int) (key, iv []byte, err error) {
	var p saltAndCount
	if err := p.read(parameters); err != nil {
		return nil, nil, err
	}
	secret := bmpString(password)
	return pkcs12KDF(sha1.New, secret, p.Salt, p.Iterations, kdfKey, keyBytes),
		pkcs12KDF(sha1.New, secret, p.Salt, p.Iterations, kdfIV, ivBytes), nil
}

// What pkcs12KDF derives: RFC 7292 appendix B.3.
const (
	kdfKey byte = 1
	kdfIV  byte = 2
	kdfMAC byte = 3
)

// pkcs12KDF derives n bytes (RFC 7292 appendix B.2).
func pkcs12KDF(newHash func() hash.Hash, secret, salt []byte, iterations int, id byte, n int) []byte {
	h := newHash()
	size := h.BlockSize()
	d := make([]byte, size)
	for i := range d {
		d[i] = id
	}
	input := append(repeated(salt, size), repeated(secret, size)...)
	var out []byte
	for {
		h.Reset()
		h.Write(d)
		h.Write(input)
		a := h.Sum(nil)
		for range iterations - 1 {
			h.Reset()
			h.Write(a)
			a = h.Sum(a[:0])
		}
		if out = append(out, a...); len(out) >= n {
			return out[:n]
		}
		b := repeated(a, size)[:size]
		for at := 0; at < len(input); at += size { // each block of the input is added to b, plus 1
			carry := 1
			for i := size - 1; i >= 0; i-- {
				carry += int(input[at+i]) + int(b[i])
				input[at+i] = byte(carry)
				carry >>= 8
			}
		}
	}
}

// repeated is b again and again, up to the next multiple of size.
func repeated(b []byte, size int) []byte {
	if len(b) == 0 {
		return nil
	}
	out := make([]byte, 0, (len(b)+size-1)/size*size)
	for len(out) < cap(out) {
		out = append(out, b[:min(len(b), cap(out)-len(out))]...)
	}
	return out
}

// bmpString is a password as PKCS12 has it: UTF-16, with a zero at its end.
func bmpString(password string) []byte {
	var out []byte
	for _, u := range utf16.Encode([]rune(password)) {
		out = append(out, byte(u>>8), byte(u))
	}
	return append(out, 0, 0)
}

// pbkdf1 derives as PBES1 does (RFC 8018 section 5.1).
func pbkdf1(newHash func() hash.Hash) func(asn1.RawValue, string, int, int) (key, iv []byte, err error) {
	return func(parameters asn1.RawValue, password string, keyBytes, ivBytes int) (key, iv []byte, err error) {
		var p saltAndCount
		if err := p.read(parameters); err != nil {
			return nil, nil, err
		}
		h := newHash()
		h.Write([]byte(password))
		h.Write(p.Salt)
		t := h.Sum(nil)
		for range p.Iterations - 1 {
			h.Reset()
			h.Write(t)
			t = h.Sum(t[:0])
		}
		return t[:keyBytes], t[keyBytes : keyBytes+ivBytes], nil
	}
}

// twoKeyTripleDES is Triple DES whose third key is its first.
func twoKeyTripleDES(key []byte) (cipher.Block, error) {
	return des.NewTripleDESCipher(append(key[:16:16], key[:8]...)) //nolint:gosec // the file says so
}

// The parameters of PBES2 (RFC 8018 appendix A.4, RFC 7914 section 7).
type (
	pbes2Parameters struct {
		Derivation, Encryption pkix.AlgorithmIdentifier
	}
	pbkdf2Parameters struct {
		Salt       []byte
		Iterations int
		KeyBytes   int                      `asn1:"optional"`
		PRF        pkix.AlgorithmIdentifier `asn1:"optional"`
	}
	scryptParameters struct {
		Salt     []byte
		N, R, P  int
		KeyBytes int `asn1:"optional"`
	}
)

func decryptPBES2(parameters asn1.RawValue, data []byte, password string) ([]byte, error) {
	var p pbes2Parameters
	if err := unmarshal(parameters.FullBytes, &p); err != nil {
		return nil, err
	}
	c, ok := blockCiphers[p.Encryption.Algorithm.String()]
	if !ok {
		return nil, unknownAlgorithm(p.Encryption.Algorithm)
	}
	key, err := pbes2Key(p.Derivation, password, c.key)
	if err != nil {
		return nil, err
	}
	var iv []byte
	if err := unmarshal(p.Encryption.Parameters.FullBytes, &iv); err != nil {
		return nil, err
	}
	return decryptCBC(c.block, key, iv, data)
}

// pbes2Key derives a key of n bytes.
func pbes2Key(derivation pkix.AlgorithmIdentifier, password string, n int) ([]byte, error) {
	switch derivation.Algorithm.String() {
	case oidScrypt:
		var p scryptParameters
		if err := unmarshal(derivation.Parameters.FullBytes, &p); err != nil {
			return nil, err
		}
		if p.N < 2 || p.R < 1 || p.P < 1 || p.P > 1<<10 || p.N > scryptBytesMax/128/p.R {
			return nil, fmt.Errorf("it asks for scrypt with N=%d, r=%d and p=%d; write it anew", p.N, p.R, p.P)
		}
		return scrypt.Key([]byte(password), p.Salt, p.N, p.R, p.P, n)
	case oidPBKDF2:
		var p pbkdf2Parameters
		if err := unmarshal(derivation.Parameters.FullBytes, &p); err != nil {
			return nil, err
		}
		if err := checkIterations(p.Iterations); err != nil {
			return nil, err
		}
		prf := sha1.New
		if len(p.PRF.Algorithm) > 0 {
			if prf = hashes[p.PRF.Algorithm.String()]; prf == nil {
				return nil, unknownAlgorithm(p.PRF.Algorithm)
			}
		}
		return pbkdf2.Key(prf, password, p.Salt, p.Iterations, n)
	}
	return nil, unknownAlgorithm(derivation.Algorithm)
}

// sign is the HMAC of data.
func sign(newHash func() hash.Hash, key, data []byte) []byte {
	mac := hmac.New(newHash, key)
	mac.Write(data)
	return mac.Sum(nil)
}
