import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    setupFiles: ['test/support/loopback-only.ts'],
    globalSetup: ['test/support/closing-line.ts', 'test/support/build-once.ts'],
    testTimeout: 30_000,
    hookTimeout: 60_000,
    // Two cores are what CI has: more workers only make timing-sensitive protocols (deadlines, leases) slower, not the suite faster.
    maxWorkers: 2,
  },
});
