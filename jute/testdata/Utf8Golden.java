import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.zip.CRC32;

/** Prints utf8_java.txt: how new String(bytes, UTF_8) reads malformed UTF-8. */
public final class Utf8Golden {
  /** The borders of every class of bytes in UTF-8. */
  static final byte[] SET = hex("00417f808f909fa0bfc0c1c2dfe0e1ecedeeeff0f1f3f4f5f8fbfcfeff");

  /** Longer sequences: surrogates, overlong forms, beyond U+10FFFF, cut short. */
  static final String EXTRA =
      "61eda0bdedb88062 eda080 edbfbf edb080 eda0 eda041 ed9fbf ee8080 efbfbf efbfbd f0908080 f48fbfbf f4908080 "
          + "f0808080 f08fbfbf f0908041 f09080f0908080 f0900041 f09f9880 61f09f988062 f09f98 f09f f0 f09f9841 e08080 "
          + "e09fbf e0a080 e28280 e282 e28241 e2e28280 c080 c1bf c27f c2c280 f880808080 fc8080808080 fe ff fffe "
          + "808080808080 bfbfbf 2f61ff2f62 f4 f490 f5808080 f0f0f0f0 e0e0e0 e18080e180 f1808080f18080 f180e18080 "
          + "f18041e18041 edf09f9880 eda0f09f9880";

  public static void main(String[] args) {
    System.out.println("# Malformed UTF-8 as Java's new String(bytes, UTF_8) reads it: the bytes, and their text.");
    for (byte x : SET) line(new byte[] {x});
    for (byte x : SET) for (byte y : SET) if (x < 0 || y < 0) line(new byte[] {x, y});
    for (String s : EXTRA.split(" ")) line(hex(s));
    System.out.println("# Two bytes, the CRC-32 over the texts, each after its length in one byte, of the two followed by");
    System.out.println("# every byte and then every two bytes of the set.");
    for (byte x : SET) for (byte y : SET) if (x < 0 || y < 0) sum(x, y);
  }

  static void sum(byte x, byte y) {
    CRC32 crc = new CRC32();
    for (byte z : SET) add(crc, new byte[] {x, y, z});
    for (byte z : SET) for (byte w : SET) add(crc, new byte[] {x, y, z, w});
    System.out.printf("%02x%02x crc %08x%n", x, y, crc.getValue());
  }

  static void add(CRC32 crc, byte[] in) {
    byte[] text = text(in);
    crc.update(text.length);
    crc.update(text);
  }

  static void line(byte[] in) {
    System.out.println(HexFormat.of().formatHex(in) + " " + HexFormat.of().formatHex(text(in)));
  }

  static byte[] text(byte[] in) {
    return new String(in, StandardCharsets.UTF_8).getBytes(StandardCharsets.UTF_8);
  }

  static byte[] hex(String s) {
    return HexFormat.of().parseHex(s);
  }
}
