// RUN: gathernest-opt %s -p fold-bounds --verify-diagnostics --split-input-file

// expected-error@unknown {{expected the mask of gather.masked_load to be `valid` of every gather.resolve}}
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

// -----

// expected-error@unknown {{in a function and one bounds mode, got 1}}
func.func @gather(%data: memref<5x5xi32>, %indices: memref<3xi64>, %out: memref<3xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = memref.dim %indices, %c0 : memref<3xi64>
  %s = memref.dim %data, %c0 : memref<5x5xi32>
  gather.loop indices(%i) = %c0 to %n step %c1 {
    %index = memref.load %indices[%i] : memref<3xi64>
    %p, %v = gather.resolve %index within %s bounds zero : i64
    %q, %w = gather.resolve %index within %s bounds clip : i64
    %valid = arith.andi %v, %w : i1
    %x = gather.masked_load %data[%p, %q], %valid : memref<5x5xi32> -> i32
    memref.store %x, %out[%i] : memref<3xi32>
  }
  func.return
}

// -----

// One of two resolves does not decide about the load.
// expected-error@unknown {{expected the mask of gather.masked_load to be `valid` of every gather.resolve}}
func.func @gather(%data: memref<5x5xi32>, %indices: memref<3xi64>, %out: memref<3xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = memref.dim %indices, %c0 : memref<3xi64>
  %s = memref.dim %data, %c0 : memref<5x5xi32>
  gather.loop indices(%i) = %c0 to %n step %c1 {
    %index = memref.load %indices[%i] : memref<3xi64>
    %p, %v = gather.resolve %index within %s bounds zero : i64
    %q, %w = gather.resolve %index within %s bounds zero : i64
    %x = gather.masked_load %data[%p, %q], %v : memref<5x5xi32> -> i32
    memref.store %x, %out[%i] : memref<3xi32>
  }
  func.return
}

// -----

// expected-error@unknown {{a function returns the number of indices outside, and can return no more}}
func.func @gather(%data: memref<5xi32>, %indices: memref<3xi64>, %out: memref<3xi32>) -> index {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = memref.dim %indices, %c0 : memref<3xi64>
  %s = memref.dim %data, %c0 : memref<5xi32>
  gather.loop indices(%i) = %c0 to %n step %c1 {
    %index = memref.load %indices[%i] : memref<3xi64>
    %p, %valid = gather.resolve %index within %s bounds error : i64
    %x = gather.masked_load %data[%p], %valid : memref<5xi32> -> i32
    memref.store %x, %out[%i] : memref<3xi32>
  }
  func.return %n : index
}

// -----

// expected-error@unknown {{expected the index to be loaded in the nest}}
func.func @gather(%data: memref<5xi32>, %out: memref<3xi32>, %index: i64) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = memref.dim %out, %c0 : memref<3xi32>
  %s = memref.dim %data, %c0 : memref<5xi32>
  gather.loop indices(%i) = %c0 to %n step %c1 {
    %p, %valid = gather.resolve %index within %s bounds error : i64
    %x = gather.masked_load %data[%p], %valid : memref<5xi32> -> i32
    memref.store %x, %out[%i] : memref<3xi32>
  }
  func.return
}

// -----

// expected-error@unknown {{use `valid`, got arith.extui}}
func.func @gather(%data: memref<5xi32>, %indices: memref<3xi64>, %out: memref<3xi32>, %seen: memref<3xi64>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = memref.dim %indices, %c0 : memref<3xi64>
  %s = memref.dim %data, %c0 : memref<5xi32>
  gather.loop indices(%i) = %c0 to %n step %c1 {
    %index = memref.load %indices[%i] : memref<3xi64>
    %p, %valid = gather.resolve %index within %s bounds zero : i64
    %x = gather.masked_load %data[%p], %valid : memref<5xi32> -> i32
    memref.store %x, %out[%i] : memref<3xi32>
    %flag = arith.extui %valid : i1 to i64
    memref.store %flag, %seen[%i] : memref<3xi64>
  }
  func.return
}

// -----

// expected-error@unknown {{expected sizes and bounds from outside the nest; run it before tile-loops}}
func.func @gather(%data: memref<5xi32>, %indices: memref<3xi64>, %out: memref<3xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %n = memref.dim %indices, %c0 : memref<3xi64>
  %s = memref.dim %data, %c0 : memref<5xi32>
  gather.loop tiles(%t) = %c0 to %n step %c2 {
    gather.loop indices(%i) = %t to %n step %c2 {
      %index = memref.load %indices[%i] : memref<3xi64>
      %p, %valid = gather.resolve %index within %s bounds error : i64
      %x = gather.masked_load %data[%p], %valid : memref<5xi32> -> i32
      memref.store %x, %out[%i] : memref<3xi32>
    }
  }
  func.return
}

// -----

// expected-error@unknown {{indices that are counted have bounds zero, and no position is read}}
func.func @counted(%data: memref<5xf32>, %indices: memref<3xi64>, %out: memref<1xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c5 = arith.constant 5 : index
  gather.loop ordered bag(%k) = %c0 to %c3 step %c1 {
    %index = memref.load %indices[%k] : memref<3xi64>
    %counted, %is_counted = gather.resolve %index within %c5 bounds clip : i64
    %one = arith.extui %is_counted : i1 to i64
    %position, %valid = gather.resolve %index within %c5 bounds clip : i64
    %element = gather.masked_load %data[%position], %valid : memref<5xf32> -> f32
    gather.accumulate %element, %out[%c0] if %valid : f32, memref<1xf32>
  }
  func.return
}

// -----

// expected-error@unknown {{expected sizes and bounds from outside the nest; run it before tile-loops}}
func.func @gather(%data: memref<5xi32>, %indices: memref<3xi64>, %out: memref<3xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = memref.dim %indices, %c0 : memref<3xi64>
  gather.loop indices(%i) = %c0 to %n step %c1 {
    %index = memref.load %indices[%i] : memref<3xi64>
    %p, %valid = gather.resolve %index within %i bounds error : i64
    %x = gather.masked_load %data[%p], %valid : memref<5xi32> -> i32
    memref.store %x, %out[%i] : memref<3xi32>
  }
  func.return
}
