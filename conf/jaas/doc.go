// Package jaas reads who may log in by SASL: the file that java.security.auth.login.config names, in the form of
// javax.security.auth.login.Configuration, and the plain list of names and passwords of zkd.sasl.users.
//
//	Server {
//	    org.apache.zookeeper.server.auth.DigestLoginModule required
//	    user_super="adminsecret"
//	    user_bob="bobsecret";
//	};
//
// It owns the two formats. It must never know what a login module does or how a password is used: server/instance
// chooses a section and gives what it says to zkd/server/auth/sasl. It opens no file.
//
// Invariants: what Java reads as a configuration is read as the same one, or refused; it is refused where Java takes
// something in silence that was hardly meant (a string that ends with its line, a comment after a single slash, an
// option given twice) and where it would put a property of the JVM in place of ${…}. An error names the line and what
// was expected, and never holds a value: it could be a password. No input makes the parser panic or take more memory
// than a small multiple of the file.
package jaas
