// RUN: gathernest-opt %s -p "vectorize-inner{lanes=4}" --verify-diagnostics --split-input-file

// expected-error@unknown {{expected a nest that copies one element to out}}
func.func @gather(%data: memref<?xi32>, %out: memref<?xi32>, %x: i32, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  gather.loop inner(%j) = %c0 to %n step %c1 {
  }
  func.return
}

// -----

// expected-error@unknown {{expected a nest that copies one element to out}}
func.func @gather(%data: memref<?xi32>, %out: memref<?xi32>, %x: i32, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  gather.loop inner(%j) = %c0 to %n step %c1 {
    memref.store %x, %out[%j] : memref<?xi32>
    memref.store %x, %out[%j] : memref<?xi32>
  }
  func.return
}

// -----

// expected-error@unknown {{inner does more than add an element in steps of 1}}
func.func @gather(%data: memref<?xi32>, %out: memref<?xi32>, %x: i32, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  gather.loop inner(%j) = %c0 to %n step %c1 {
    memref.store %x, %out[%j] : memref<?xi32>
    gather.accumulate %x, %out[%j] : i32, memref<?xi32>
  }
  func.return
}

// -----

// expected-error@unknown {{the element is stored outside of every loop}}
func.func @gather(%data: memref<?xi32>, %out: memref<?xi32>, %x: i32, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  memref.store %x, %out[%c0] : memref<?xi32>
  gather.loop inner(%j) = %c0 to %n step %c1 {
  }
  func.return
}

// -----

// expected-error@unknown {{inner is parallel; a vector would split its iterations}}
func.func @gather(%data: memref<?xi32>, %out: memref<?xi32>, %x: i32, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  gather.loop parallel inner(%j) = %c0 to %n step %c1 {
    memref.store %x, %out[%j] : memref<?xi32>
  }
  func.return
}

// -----

// expected-error@unknown {{inner is ordered; a vector would split its iterations}}
func.func @gather(%data: memref<?xi32>, %out: memref<?xi32>, %x: i32, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  gather.loop ordered inner(%j) = %c0 to %n step %c1 {
    memref.store %x, %out[%j] : memref<?xi32>
  }
  func.return
}

// -----

// expected-error@unknown {{inner takes several elements at a time already}}
func.func @gather(%data: memref<?xi32>, %out: memref<?xi32>, %x: i32, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  gather.loop inner(%j) = %c0 to %n step %c2 {
    memref.store %x, %out[%j] : memref<?xi32>
  }
  func.return
}

// -----

// expected-error@unknown {{inner is not innermost}}
func.func @gather(%data: memref<?xi32>, %out: memref<?xi32>, %x: i32, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  gather.loop inner(%j) = %c0 to %n step %c1 {
    memref.store %x, %out[%j] : memref<?xi32>
    gather.loop more(%k) = %c0 to %n step %c1 {
    }
  }
  func.return
}

// -----

// expected-error@unknown {{the load is masked, as the axis may be empty}}
func.func @gather(%data: memref<?xi32>, %out: memref<?xi32>, %m: i1, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  gather.loop inner(%j) = %c0 to %n step %c1 {
    %y = gather.masked_load %data[%j], %m : memref<?xi32> -> i32
    memref.store %y, %out[%j] : memref<?xi32>
  }
  func.return
}

// -----

// expected-error@unknown {{inner does more than copy an element; vectors are made first}}
func.func @gather(%data: memref<?xi32>, %out: memref<?xi32>, %x: i32, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  gather.loop inner(%j) = %c0 to %n step %c1 {
    memref.prefetch %data[%j], read, locality<3>, data : memref<?xi32>
    memref.store %x, %out[%j] : memref<?xi32>
  }
  func.return
}

// -----

// expected-error@unknown {{iterations of inner do not write side by side in out}}
func.func @gather(%data: memref<?xi32>, %out: memref<?xi32>, %x: i32, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  gather.loop inner(%j) = %c0 to %n step %c1 {
    memref.store %x, %out[%c0] : memref<?xi32>
  }
  func.return
}

// -----

// expected-error@unknown {{iterations of inner do not write side by side in out}}
func.func @gather(%data: memref<?xi32>, %out: memref<?xi32>, %x: i32, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  gather.loop inner(%j) = %c0 to %n step %c1 {
    %k = arith.addi %j, %j : index
    memref.store %x, %out[%k] : memref<?xi32>
  }
  func.return
}

// -----

// expected-error@unknown {{iterations of inner do not write side by side in out}}
func.func @gather(%data: memref<?xi32>, %out: memref<?x?xi32>, %x: i32, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  gather.loop inner(%j) = %c0 to %n step %c1 {
    memref.store %x, %out[%j, %c0] : memref<?x?xi32>
  }
  func.return
}

// -----

// expected-error@unknown {{iterations of inner do not write side by side in out}}
func.func @gather(%data: memref<?xi32>, %out: memref<?xi32, strided<[?]>>, %x: i32, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  gather.loop inner(%j) = %c0 to %n step %c1 {
    memref.store %x, %out[%j] : memref<?xi32, strided<[?]>>
  }
  func.return
}

// -----

// expected-error@unknown {{expected elements of 8, 16, 32, 64, 128 bits, got f32; run erase-element-type first}}
func.func @gather(%data: memref<?xf32>, %out: memref<?xf32>, %x: f32, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  gather.loop inner(%j) = %c0 to %n step %c1 {
    memref.store %x, %out[%j] : memref<?xf32>
  }
  func.return
}
