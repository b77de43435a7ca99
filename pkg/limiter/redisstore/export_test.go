package redisstore

// SlotOf lets tests know a subject's slot without asking.
var SlotOf = slotOf
