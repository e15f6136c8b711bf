/** What became of look-ups in a cache, since the beginning: plain numbers, so that counting costs an addition. */
export class LookUps {
  /** Answered with what was here. */
  hits = 0;
  /** Joined what was on its way already. */
  coalesced = 0;
  /** Had upstream asked. */
  misses = 0;
  /** Answered with what was here because upstream gave no usable answer. */
  stale = 0;
}
