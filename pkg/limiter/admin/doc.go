// Package admin is for operators' tools, and for stores that serve them: what a store offers besides decisions.
// Services need none of it.
//
//   - [Keyspace] lists, deletes, adjusts and brings back keys. [KeyspaceOf] finds it.
//   - [OverrideTable] keeps what operators say about limits for a while. [OverrideTableOf] finds it.
//   - [DenialTable] keeps who is denied. [DenialTableOf] finds it.
//   - [Journal] keeps what was changed, so that it can be told and undone. [JournalOf] finds it.
//   - [Identity] is the id by which a store is known again. [IdentityOf] finds it.
//   - [ImportCheck] tells before keys are deleted whether they could be brought back. [ImportCheckOf] finds it.
//
// All stores of this module have them, but for ImportCheck, which only the keys of other limiters in a Redis have.
package admin
