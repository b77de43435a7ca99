// Package admin is for operators' tools, and for stores that serve them: what a store offers besides decisions.
// Services need none of it.
//
//   - [Keyspace] lists, deletes, adjusts and brings back keys. [KeyspaceOf] finds it.
//   - [OverrideTable] keeps the overrides of operators. [OverrideTableOf] finds it.
//   - [DenialTable] counts denials per key. [DenialTableOf] finds it.
//   - [Journal] keeps a list of texts, such as who changed what. [JournalOf] finds it.
//   - [Identity] is the id that identifies a store. [IdentityOf] finds it.
//   - [ImportCheck] finds out, before keys are deleted, whether they could be brought back. [ImportCheckOf] finds it.
//
// All stores of this module have them, except ImportCheck, which only the keys of other limiters in a Redis have.
package admin
