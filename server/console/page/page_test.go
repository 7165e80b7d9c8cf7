package page

import "testing"

func TestOnlyConstantsAreMarkup(t *testing.T) {
	var p Page
	hostile := `</p><script>alert("1")</script>'&` + "\x00{}"
	p.Put(`<p title="{}">{}</p>`, hostile, hostile)
	p.PutIf(false, `<b>{}</b>`, "no")
	p.PutIf(true, `<i>{}</i>`, "yes")
	const shown = "&lt;/p&gt;&lt;script&gt;alert(&#34;1&#34;)&lt;/script&gt;&#39;&amp;\ufffd{}"
	if got, want := p.String(), `<p title="`+shown+`">`+shown+`</p><i>yes</i>`; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
