;; Finds the lines of a block in one pass, and what stands at the beginning of the usual ones: those that begin
;;
;;   {"type":"…","id":"…","parentId":"…",
;;
;; without spaces, escapes or anything beyond ASCII in the three, that end in }, and that have no second "parentId":
;; (with one, another entry may be glued behind the first thing on the line). Every other line is only told where it ends:
;; usual-lines.ts has it looked at in TypeScript.
;;
;; `node scripts/compile-scan.mjs` writes this file, compiled, into compiled-scan.ts; a test holds the two together.
(module
  ;; 64 bytes that nobody uses, so that one may look a few bytes before the block; a block of 1 MiB; 64 bytes more, as 64
  ;; are read at a time; from 1,048,704 on, eight columns of 16,384 numbers of 32 bits, one number for each line:
  ;;   +0       where the line ends: the position of its newline
  ;;   +65536   where the value of `type` ends; 0 when the line is not a usual one, and then the rest says nothing
  ;;   +131072  where the value of `id` ends
  ;;   +196608  where the value of `parentId` ends
  ;;   +262144  the hash of the id: its low half, and at +327680 the high one
  ;;   +393216  the hash of the parent's id: its low half, and at +458752 the high one
  (memory (export "memory") 25)

  ;; Where the line begins that is being looked at.
  (global $start (mut i32) (i32.const 0))
  ;; The last "parentId": that was found: the position of its I.
  (global $mark (mut i32) (i32.const 0))
  ;; Where the next line's number goes in the first column.
  (global $out (mut i32) (i32.const 0))
  ;; The seed of the hashes.
  (global $seed (mut i32) (i32.const 0))

  ;; Finds the lines that end in a newline in [from, to) of memory, `from` being the first byte of one; returns how many.
  ;; It ends early where the columns are full.
  (func (export "find") (param $from i32) (param $to i32) (param $hashSeed i32) (result i32)
    (local $at i32)
    (local $newlines v128) (local $tI v128) (local $Id v128)
    (local $a v128) (local $b v128) (local $c v128) (local $d v128)
    (global.set $start (local.get $from))
    (global.set $mark (i32.const 0))
    (global.set $out (i32.const 1048704))
    (global.set $seed (local.get $hashSeed))
    (local.set $newlines (i8x16.splat (i32.const 0x0a)))
    (local.set $tI (i16x8.splat (i32.const 0x4974)))
    (local.set $Id (i16x8.splat (i32.const 0x6449)))
    (local.set $at (i32.and (local.get $from) (i32.const -64)))
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $at) (local.get $to)))
        ;; Wherever a mark stands, one of two pairs of its bytes stands at an even address: tI or Id.
        (local.set $a (v128.load (local.get $at)))
        (local.set $b (v128.load offset=16 (local.get $at)))
        (local.set $c (v128.load offset=32 (local.get $at)))
        (local.set $d (v128.load offset=48 (local.get $at)))
        (local.set $a (v128.or (i8x16.eq (local.get $a) (local.get $newlines))
          (v128.or (i16x8.eq (local.get $a) (local.get $tI)) (i16x8.eq (local.get $a) (local.get $Id)))))
        (local.set $b (v128.or (i8x16.eq (local.get $b) (local.get $newlines))
          (v128.or (i16x8.eq (local.get $b) (local.get $tI)) (i16x8.eq (local.get $b) (local.get $Id)))))
        (local.set $c (v128.or (i8x16.eq (local.get $c) (local.get $newlines))
          (v128.or (i16x8.eq (local.get $c) (local.get $tI)) (i16x8.eq (local.get $c) (local.get $Id)))))
        (local.set $d (v128.or (i8x16.eq (local.get $d) (local.get $newlines))
          (v128.or (i16x8.eq (local.get $d) (local.get $tI)) (i16x8.eq (local.get $d) (local.get $Id)))))
        (if (v128.any_true (v128.or (v128.or (local.get $a) (local.get $b)) (v128.or (local.get $c) (local.get $d))))
          (then
            (call $lookAt (local.get $at) (i8x16.bitmask (local.get $a)) (local.get $to))
            (call $lookAt (i32.add (local.get $at) (i32.const 16)) (i8x16.bitmask (local.get $b)) (local.get $to))
            (call $lookAt (i32.add (local.get $at) (i32.const 32)) (i8x16.bitmask (local.get $c)) (local.get $to))
            (call $lookAt (i32.add (local.get $at) (i32.const 48)) (i8x16.bitmask (local.get $d)) (local.get $to))))
        (local.set $at (i32.add (local.get $at) (i32.const 64)))
        (br_if $next (i32.lt_u (global.get $out) (i32.const 1114240)))))
    (i32.shr_u (i32.sub (global.get $out) (i32.const 1048704)) (i32.const 2)))

  ;; Looks at the bytes among the 16 at `at` whose bits are set: newlines, and pairs that may be of a mark.
  (func $lookAt (param $at i32) (param $bits i32) (param $to i32)
    (local $position i32) (local $byte i32)
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $bits)))
        (local.set $position (i32.add (local.get $at) (i32.ctz (local.get $bits))))
        (local.set $bits (i32.and (local.get $bits) (i32.sub (local.get $bits) (i32.const 1))))
        (local.set $byte (i32.load8_u (local.get $position)))
        (if (i32.eq (local.get $byte) (i32.const 0x49)) ;; I
          (then (if (call $isMark (local.get $position)) (then (global.set $mark (local.get $position))))))
        (br_if $next (i32.ne (local.get $byte) (i32.const 0x0a)))
        ;; The pass begins at a multiple of 64 and ends at one: bytes outside [from, to) are of no line.
        (br_if $next (i32.lt_u (local.get $position) (global.get $start)))
        (br_if $done (i32.ge_u (local.get $position) (local.get $to)))
        (br_if $done (i32.ge_u (global.get $out) (i32.const 1114240)))
        (call $takeLine (local.get $position))
        (global.set $start (i32.add (local.get $position) (i32.const 1)))
        (global.set $out (i32.add (global.get $out) (i32.const 4)))
        (br $next))))

  ;; Whether the I at a position is that of "parentId":
  (func $isMark (param $position i32) (result i32)
    (i32.and
      (i64.eq (i64.load (i32.sub (local.get $position) (i32.const 4))) (i64.const 0x3a226449746e6572)) ;; rentId":
      (i32.eq (i32.load (i32.sub (local.get $position) (i32.const 7))) (i32.const 0x72617022)))) ;; "par

  ;; Writes down the line from $start to the newline at `stop`.
  (func $takeLine (param $stop i32)
    (local $start i32) (local $out i32) (local $typeEnd i32) (local $idEnd i32) (local $parentEnd i32)
    (local.set $start (global.get $start))
    (local.set $out (global.get $out))
    (i32.store (local.get $out) (local.get $stop))
    (i32.store offset=65536 (local.get $out) (i32.const 0))
    (br_if 0 (i64.ne (i64.load (local.get $start)) (i64.const 0x3a2265707974227b))) ;; {"type":
    (br_if 0 (i32.ne (i32.load8_u offset=8 (local.get $start)) (i32.const 0x22)))
    (br_if 0 (i32.ne (i32.load8_u (i32.sub (local.get $stop) (i32.const 1))) (i32.const 0x7d))) ;; }
    (local.set $typeEnd (call $plainEnd (i32.add (local.get $start) (i32.const 9)) (local.get $stop)))
    (br_if 0 (i64.ne (i64.load (local.get $typeEnd)) (i64.const 0x223a226469222c22))) ;; ","id":"
    (local.set $idEnd (call $plainEnd (i32.add (local.get $typeEnd) (i32.const 8)) (local.get $stop)))
    (br_if 0 (i32.eq (local.get $idEnd) (i32.add (local.get $typeEnd) (i32.const 8))))
    (br_if 0 (i64.ne (i64.load (local.get $idEnd)) (i64.const 0x6e65726170222c22))) ;; ","paren
    (br_if 0 (i64.ne (i64.load offset=6 (local.get $idEnd)) (i64.const 0x223a226449746e65))) ;; entId":"
    (local.set $parentEnd (call $plainEnd (i32.add (local.get $idEnd) (i32.const 14)) (local.get $stop)))
    (br_if 0 (i32.ge_u (i32.add (local.get $parentEnd) (i32.const 1)) (local.get $stop)))
    (br_if 0 (i32.ne (i32.load16_u (local.get $parentEnd)) (i32.const 0x2c22))) ;; ",
    (br_if 0 (i32.gt_u (global.get $mark) (local.get $parentEnd)))
    (i32.store offset=65536 (local.get $out) (local.get $typeEnd))
    (i32.store offset=131072 (local.get $out) (local.get $idEnd))
    (i32.store offset=196608 (local.get $out) (local.get $parentEnd))
    (call $hash (i32.add (local.get $typeEnd) (i32.const 8)) (local.get $idEnd) (i32.add (local.get $out) (i32.const 262144)))
    (call $hash (i32.add (local.get $idEnd) (i32.const 14)) (local.get $parentEnd) (i32.add (local.get $out) (i32.const 393216))))

  ;; Where a text ends that has no escape, no control and nothing beyond ASCII: at its quote, if all is well.
  (func $plainEnd (param $at i32) (param $end i32) (result i32)
    (local $byte i32)
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $at) (local.get $end)))
        (local.set $byte (i32.load8_u (local.get $at)))
        (br_if $done (i32.gt_u (i32.sub (local.get $byte) (i32.const 0x20)) (i32.const 0x5e)))
        (br_if $done (i32.eq (local.get $byte) (i32.const 0x22)))
        (br_if $done (i32.eq (local.get $byte) (i32.const 0x5c)))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br $next)))
    (local.get $at))

  ;; The hash that id-hash.ts makes of the same bytes: the low half to `out`, the high half one column further.
  (func $hash (param $at i32) (param $end i32) (param $out i32)
    (local $low i32) (local $high i32) (local $pair i32)
    (local.set $low (i32.xor (global.get $seed) (i32.sub (local.get $end) (local.get $at))))
    (local.set $high (i32.xor (local.get $low) (i32.const -1)))
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $at) (local.get $end)))
        (local.set $pair
          (if (result i32) (i32.lt_u (i32.add (local.get $at) (i32.const 1)) (local.get $end))
            (then (i32.load16_u (local.get $at)))
            (else (i32.load8_u (local.get $at)))))
        (local.set $low (i32.mul (i32.xor (local.get $low) (local.get $pair)) (i32.const 0x01000193)))
        (local.set $high
          (i32.mul
            (i32.add (i32.xor (local.get $high) (local.get $pair)) (i32.shr_u (local.get $high) (i32.const 15)))
            (i32.const 0x85ebca6b)))
        (local.set $at (i32.add (local.get $at) (i32.const 2)))
        (br $next)))
    (i32.store (local.get $out)
      (i32.mul (i32.xor (local.get $low) (i32.shr_u (local.get $low) (i32.const 15))) (i32.const 0x2c1b3c6d)))
    (i32.store offset=65536 (local.get $out)
      (i32.mul (i32.xor (local.get $high) (i32.shr_u (local.get $high) (i32.const 13))) (i32.const 0xc2b2ae35)))))
