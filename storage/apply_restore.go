package storage

import (
	"fmt"

	"zkd/jute"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// refuse answers a proposal of a restore that cannot be.
func (r *Result) refuse(code jute.Code, format string, args ...any) {
	r.Code, r.Refusal = code, fmt.Sprintf(format, args...)
}

// restoreBody decodes the body of a proposal of a restore, and is false if it is none.
func (t *txn) restoreBody(r *Result) (body entry.RestoreTxn, ok bool) {
	if err := body.Decode(t.p.Body); err != nil {
		r.refuse(jute.MarshallingError, "%v", err)
		return body, false
	}
	return body, true
}

// uploading tells whether body is about the upload that is under way; else it is refused.
func (t *txn) uploading(body *entry.RestoreTxn, r *Result) bool {
	if t.upload != nil && t.upload.ID == body.Upload {
		return true
	}
	r.refuse(jute.BadArguments, "the upload is gone: another restore has begun, or it was given up")
	return false
}

// restoreBegin begins an upload.
func (t *txn) restoreBegin(r *Result) {
	if body, ok := t.restoreBody(r); ok {
		t.dropUpload()
		t.setUpload(&schema.Upload{ID: body.Upload})
	}
}

// restoreChunk adds to the upload.
func (t *txn) restoreChunk(r *Result) {
	body, ok := t.restoreBody(r)
	switch n := len(body.Data); {
	case !ok || !t.uploading(&body, r):
	case n == 0 || n > entry.RestoreChunkBytesMax:
		r.refuse(jute.BadArguments, "a piece of %d bytes, of 1 to %d are taken", n, entry.RestoreChunkBytesMax)
	case body.Offset != t.upload.Bytes:
		r.refuse(jute.BadArguments, "a piece for offset %d of an upload of %d bytes", body.Offset, t.upload.Bytes)
	default:
		t.addToUpload(body.Data)
	}
}

// restoreAbort drops the upload.
func (t *txn) restoreAbort(r *Result) {
	if body, ok := t.restoreBody(r); ok && t.uploading(&body, r) {
		t.dropUpload()
	}
}

// restoreCommit builds the state that follows, beside the present one, which stays as it is until Machine.Apply puts
// the other one into its place. Whatever is wrong with the upload is a result, and the upload is gone.
func (t *txn) restoreCommit(r *Result) {
	body, ok := t.restoreBody(r)
	switch {
	case !ok:
	case !t.alone:
		r.refuse(jute.BadArguments, "the end of an upload is not alone in its entry")
	case !t.uploading(&body, r):
	case body.Offset != t.upload.Bytes:
		r.refuse(jute.BadArguments, "an upload of %d bytes ends at %d", t.upload.Bytes, body.Offset)
	default:
		t.succeed(&body, r)
	}
}

// succeed builds the state of the upload.
func (t *txn) succeed(body *entry.RestoreTxn, r *Result) {
	zxid, refused, err := t.buildSuccessor(body.Sum)
	switch {
	case err != nil:
		t.err = err
	case refused != nil:
		t.dropUpload()
		r.refuse(jute.DataInconsistency, "%v", refused)
	default:
		t.successor = true
		t.pos.Zxid = zxid
		r.Zxid = zxid
	}
}
