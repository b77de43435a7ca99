package redisserver

// SlotCount is the number of slots of a Redis Cluster.
const SlotCount = 16384

// SlotOf returns the slot of keys with a hash tag: the CRC-16 of the tag (the XMODEM variant, from the Redis
// Cluster specification), modulo [SlotCount].
func SlotOf(tag string) int {
	crc := uint16(0)
	for _, c := range []byte(tag) {
		crc ^= uint16(c) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			crc <<= 1
			if carry {
				crc ^= 0x1021
			}
		}
	}
	return int(crc) % SlotCount
}
