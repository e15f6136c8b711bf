import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    testTimeout: 30_000,
    hookTimeout: 60_000,
    // Two cores are what CI has: more workers only make timing-sensitive protocols (deadlines, leases) slower, not the suite faster.
    maxWorkers: 2,
  },
});
