// Package refusal writes the server's answers that are not decisions: the error document of the commands over HTTP,
// and documents about the server itself.
package refusal

import (
	"net/http"

	"github.com/limitctl/limitctl/internal/output"
)

// longest is the most bytes of a message, which can quote a client.
const longest = 2000

// Write answers with a status and the error document of a kind (see outcome) and a message without secrets.
func Write(w http.ResponseWriter, status int, kind, message string) {
	WriteJSON(w, status, Document(kind, message, false))
}

// unknown is the error document for a request whose outcome is unknown.
type unknown struct {
	SchemaVersion int           `json:"schema_version"`
	Outcome       string        `json:"outcome"`
	Error         *output.Error `json:"error"`
}

// Document returns the error document that Write writes. isUnknown says that the request may have been charged.
func Document(kind, message string, isUnknown bool) any {
	shown := output.Error{Kind: kind, Message: output.Shorten(output.Escape(message), longest)}
	if isUnknown {
		return unknown{output.SchemaVersion, "unknown", &shown}
	}
	return shown.Document()
}

// WriteJSON answers with a document. It forbids caches to keep it, since it is true only now.
func WriteJSON(w http.ResponseWriter, status int, document any) {
	text, err := output.JSON(document)
	if err != nil { // texts, numbers and times can always be written
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header()["Content-Type"] = isJSON
	Uncached(w.Header())
	w.WriteHeader(status)
	w.Write(append(text, '\n'))
}

// These values are shared by all answers; [http.Header] holds slices.
var isJSON, noStore = []string{"application/json"}, []string{"no-store"}

// Uncached keeps caches from giving one client's answer to another. A cache could keep the answer to a GET.
func Uncached(header http.Header) { header["Cache-Control"] = noStore }
