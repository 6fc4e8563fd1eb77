// Redisson's RLock, for marketsim judge. Not run here: java -cp redisson-all.jar redisson.java
import java.util.Scanner;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.config.Config;

class Adapter {
    public static void main(String[] none) {
        Config config = new Config();
        config.useSingleServer().setAddress(System.getenv("REDIS_URL"));
        long lease = Long.parseLong(System.getenv("LOCK_TTL_MS"));
        config.setLockWatchdogTimeout(lease);
        var redisson = Redisson.create(config);
        RLock lock = null;
        for (Scanner in = new Scanner(System.in); in.hasNextLine(); ) {
            String[] word = in.nextLine().split(" ");
            String answer;
            try {
                if (word[0].equals("acquire")) {
                    lock = redisson.getLock(System.getenv("KEY_PREFIX") + word[1]);
                    lock.lock(); // renewed by the watchdog; lock.lock(lease, TimeUnit.MILLISECONDS) is not
                    answer = "acquired";
                } else {
                    lock.unlock();
                    answer = "released";
                }
            } catch (IllegalMonitorStateException e) { // it is not locked by this thread
                answer = "lost";
            } catch (Exception e) {
                answer = "error " + e;
            }
            System.out.println(answer.replace('\n', ' '));
            System.out.flush();
        }
        redisson.shutdown();
    }
}
