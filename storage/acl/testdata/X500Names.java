// Prints which of many made-up names javax.security.auth.x500.X500Principal takes, one a line: 1 or 0, and the name as
// UTF-8 in hexadecimal digits. x500names.txt is what it printed.
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Random;
import java.util.TreeSet;
import javax.security.auth.x500.X500Principal;

public class X500Names {
    static final String[] PIECES = {
        "CN", "cn", "O", "OU", "FOO", "1.2.3", "2.5.4.3", "OID.1.2", "oid.2.999.1", "1", "3.1", "1.40", "1..2", "1.2.",
        "EMAILADDRESS", "DC", "UID", "T", "S", "ST", "=", "=", "=", "=", "=", "=", ",", ";", "+", ",", ";", "+", "a", "b",
        "\\", "\\\\", "\\,", "\\+", "\\\"", "\\#", "\\ ", "\\41", "\\4", "\\zz", "\"", "\"", "\"a\"", "\"a,b\"", "\"a+b\"",
        "#", "#0401ff", "#0c0161", "#0c8101", "#0c810161", "#0", "#04", "#0400", "#zz", " ", "  ", "\n", "<", ">", "\u00e4",
        "\u20ac", "\0", "\t", "/", "#0401ff,", "-", "1.-0", "1.2.99999999999999999999",
    };

    public static void main(String[] args) {
        Random random = new Random(5);
        TreeSet<String> valid = new TreeSet<>(), invalid = new TreeSet<>();
        while (valid.size() < 700 || invalid.size() < 300) {
            StringBuilder b = new StringBuilder();
            int attributes = 1 + random.nextInt(3);
            for (int i = 0; i < attributes; i++) {
                if (i > 0) {
                    b.append(",;+".charAt(random.nextInt(3)));
                }
                if (random.nextInt(8) > 0) {
                    b.append(PIECES[random.nextInt(20)]).append('=');
                }
                for (int n = random.nextInt(4); n > 0; n--) {
                    b.append(PIECES[random.nextInt(PIECES.length)]);
                }
            }
            String name = b.toString();
            boolean ok = true;
            try {
                new X500Principal(name);
            } catch (IllegalArgumentException e) {
                ok = false;
            }
            if (ok && valid.size() < 700) {
                valid.add(name);
            } else if (!ok && invalid.size() < 300) {
                invalid.add(name);
            }
        }
        for (String name : valid) {
            System.out.println("1 " + HexFormat.of().formatHex(name.getBytes(StandardCharsets.UTF_8)));
        }
        for (String name : invalid) {
            System.out.println("0 " + HexFormat.of().formatHex(name.getBytes(StandardCharsets.UTF_8)));
        }
    }
}
