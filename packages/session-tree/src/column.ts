/** An array of numbers. */
interface Column<Of> {
  set(source: Of): void;
  subarray(start: number, end: number): Of;
  readonly length: number;
}

/** A column with other room, and what it held. */
export function resized<Of extends Column<Of>>(column: Of, room: Of): Of {
  room.set(column.subarray(0, room.length));
  return room;
}
