// RUN: gathernest-opt %s -p fold-bounds --verify-diagnostics --split-input-file

// expected-error@unknown {{expected the mask of gather.masked_load to be what every gather.resolve says}}
func.func @gather(%data: memref<5xi32>, %indices: memref<3xi64>, %out: memref<3xi32>, %mask: i1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = memref.dim %indices, %c0 : memref<3xi64>
  %s = memref.dim %data, %c0 : memref<5xi32>
  gather.loop indices(%i) = %c0 to %n step %c1 {
    %index = memref.load %indices[%i] : memref<3xi64>
    %p, %valid = gather.resolve %index within %s bounds zero : i64
    %x = gather.masked_load %data[%p], %mask : memref<5xi32> -> i32
    memref.store %x, %out[%i] : memref<3xi32>
  }
  func.return
}

// -----

// expected-error@unknown {{expected gather.masked_load in a loop}}
func.func @gather(%data: memref<5xi32>, %out: memref<3xi32>, %index: i64) {
  %c0 = arith.constant 0 : index
  %s = memref.dim %data, %c0 : memref<5xi32>
  %p, %valid = gather.resolve %index within %s bounds zero : i64
  %x = gather.masked_load %data[%p], %valid : memref<5xi32> -> i32
  memref.store %x, %out[%c0] : memref<3xi32>
  func.return
}
