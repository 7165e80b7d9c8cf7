// Package acl asks for each operation with each set of permissions, by each kind of identity, and compares what is
// allowed with Apache ZooKeeper 3.9.5.
//
// The table is generated: identities_test.go says who asks and what the ACL grants, one line each; operations_test.go
// what is asked for; logins_test.go has the identities that certificates and logins by SASL prove, in a table of their
// own. For each pair a znode is made with each of the 32 sets of permissions, and the outcome is one letter;
// testdata/*.golden holds what the real server has answered. So a row reads as a truth table: the position of a letter
// is the number of the set (READ 1, WRITE 2, CREATE 4, DELETE 8, ADMIN 16).
//
// It owns that table. It must never know which server answers.
package acl
