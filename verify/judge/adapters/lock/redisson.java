// Redisson's RLock, for marketsim judge. Not run here: java -cp redisson-all.jar redisson.java
import java.util.Scanner;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

class Adapter {
    private final RedissonClient redisson;
    private RLock lock;

    Adapter() {
        Config config = new Config();
        config.useSingleServer().setAddress(System.getenv("REDIS_URL"));
        config.setLockWatchdogTimeout(Long.parseLong(System.getenv("LOCK_TTL_MS")));
        redisson = Redisson.create(config);
    }

    String answer(String line) {
        String[] words = line.split(" ");
        switch (words[0]) {
            case "acquire":
                lock = redisson.getLock(System.getenv("KEY_PREFIX") + words[1]);
                lock.lock(); // renewed by the watchdog; lock.lock(lease, TimeUnit.MILLISECONDS) is not
                return "acquired";
            case "release":
                try {
                    lock.unlock();
                    return "released";
                } catch (IllegalMonitorStateException e) { // it is not locked by this thread
                    return "lost";
                }
            case "now":
                return String.valueOf(System.currentTimeMillis());
            case "can":
                return "no"; // its calls cannot be cancelled
            default:
                return "error this is not understood: " + line;
        }
    }

    public static void main(String[] none) {
        Adapter adapter = new Adapter();
        for (Scanner in = new Scanner(System.in); in.hasNextLine(); ) {
            String answer;
            try {
                answer = adapter.answer(in.nextLine());
            } catch (RuntimeException e) {
                answer = "error " + e;
            }
            System.out.println(answer.replace('\n', ' ')); // println flushes
        }
        adapter.redisson.shutdown();
    }
}
