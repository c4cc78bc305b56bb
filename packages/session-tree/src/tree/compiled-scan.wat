;; Finds the lines of a block in one pass, and the positions of the first values of lines in the usual form, which begin
;;
;;   {"type":"…","id":"…","parentId":"…",
;;
;; without spaces, and without escapes or characters beyond ASCII in the three values. They end in } and have no second
;; "parentId": (a line with it may hold a second entry). Of every other line, only the end is stored; compiled-scan.ts
;; leaves these lines to the slower scan in TypeScript.
;;
;; `node scripts/compile-scan.mjs` compiles this file and writes the result into compiled-scan.ts. A test compares the two.
(module
  ;; Layout: 64 unused bytes, so that the code can read a few bytes before the block; a block of 1 MiB; 64 more bytes,
  ;; because 64 are read at once; from 1,048,704 on, eight columns of 16,384 32-bit numbers, one number for each line:
  ;;   +0       end of the line: the position of its newline
  ;;   +65536   end of the value of `type`; 0 when the line is not in the usual form, and then the other values are unset
  ;;   +131072  end of the value of `id`
  ;;   +196608  end of the value of `parentId`
  ;;   +262144  hash of the id: its low half; the high half is at +327680
  ;;   +393216  hash of the parent's id: its low half; the high half is at +458752
  (memory (export "memory") 25)

  ;; Beginning of the current line.
  (global $start (mut i32) (i32.const 0))
  ;; Position of the I of the last "parentId": that was found.
  (global $mark (mut i32) (i32.const 0))
  ;; Address of the next line in the first column.
  (global $out (mut i32) (i32.const 0))
  ;; Seed of the hashes.
  (global $seed (mut i32) (i32.const 0))

  ;; Finds the lines in [from, to) of memory that end in a newline; returns their number. A line has to begin at `from`.
  ;; Stops early when the columns are full.
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
        ;; In every "parentId":, one of the pairs tI and Id is at an even address.
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

  ;; Handles those of the 16 bytes at `at` whose bits are set: newlines, and pairs that may belong to "parentId":.
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
        ;; The pass begins and ends at a multiple of 64, so bytes outside [from, to) are skipped here.
        (br_if $next (i32.lt_u (local.get $position) (global.get $start)))
        (br_if $done (i32.ge_u (local.get $position) (local.get $to)))
        (br_if $done (i32.ge_u (global.get $out) (i32.const 1114240)))
        (call $takeLine (local.get $position))
        (global.set $start (i32.add (local.get $position) (i32.const 1)))
        (global.set $out (i32.add (global.get $out) (i32.const 4)))
        (br $next))))

  ;; Returns whether the I at a position belongs to "parentId":.
  (func $isMark (param $position i32) (result i32)
    (i32.and
      (i64.eq (i64.load (i32.sub (local.get $position) (i32.const 4))) (i64.const 0x3a226449746e6572)) ;; rentId":
      (i32.eq (i32.load (i32.sub (local.get $position) (i32.const 7))) (i32.const 0x72617022)))) ;; "par

  ;; Stores the line from $start to the newline at `stop` in the columns.
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

  ;; Returns the end of a text's plain part (ASCII without controls and escapes). In a plain text that is its closing quote.
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

  ;; Computes the same hash as IdHash in entry-index.ts. Stores the low half at `out` and the high half one column further.
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
