import { LocalLeases } from '../../src/store/local-leases.ts';
import { leasesContract } from '../contract/leases.ts';

leasesContract('one process', async () => {
  const leases = new LocalLeases();
  return { here: leases, there: leases, close: () => leases.close() };
});
