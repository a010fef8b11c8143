// RUN: gathernest-opt %s -p nest --split-input-file

// One unsigned comparison of the index plus the size does both bounds, in a nest of its own, before anything is written.
// CHECK: %n_outside = gather.loop check_batch
// CHECK: arith.cmpi uge, %shifted, %twice : i64
// CHECK: arith.cmpi eq, %n_outside
// CHECK: scf.if %all_inside
// CHECK-NOT: arith.cmpi
// CHECK: func.return %n_outside : i64
func.func @gather(%data: tensor<5x4xf32>, %indices: tensor<3xi64>) -> tensor<3x4xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds error : tensor<5x4xf32>, tensor<3xi64> -> tensor<3x4xf32>
  func.return %r : tensor<3x4xf32>
}

// -----

// Unsigned indices do not wrap; zeros are selected without a branch.
// CHECK-NOT: arith.shrsi
// CHECK: arith.cmpi ult, %wide, %size : i64
// CHECK: %clamped = arith.select
// CHECK: %element = arith.select
func.func @gather(%data: tensor<5x4xf32>, %indices: tensor<3xui32>) -> tensor<3x4xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<5x4xf32>, tensor<3xui32> -> tensor<3x4xf32>
  func.return %r : tensor<3x4xf32>
}

// -----

// Every int8 is valid on an axis of 128: no check is left, and the function says what it holds for.
// CHECK: attributes {gather.min_axis_sizes = array<i64: 128>}
// CHECK-NOT: check_
// CHECK: func.return
func.func @gather(%data: tensor<128x4xf32>, %indices: tensor<3xi8>) -> tensor<3x4xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds error : tensor<128x4xf32>, tensor<3xi8> -> tensor<3x4xf32>
  func.return %r : tensor<3x4xf32>
}

// -----

// One less, and the check is there.
// CHECK: check_batch
func.func @gather(%data: tensor<127x4xf32>, %indices: tensor<3xi8>) -> tensor<3x4xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds error : tensor<127x4xf32>, tensor<3xi8> -> tensor<3x4xf32>
  func.return %r : tensor<3x4xf32>
}

// -----

// CHECK: arith.minsi
// CHECK: arith.maxsi
// CHECK-NOT: arith.cmpi
func.func @gather(%data: tensor<5x4xf32>, %indices: tensor<3xi64>) -> tensor<3x4xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds clip : tensor<5x4xf32>, tensor<3xi64> -> tensor<3x4xf32>
  func.return %r : tensor<3x4xf32>
}

// -----

// CHECK: arith.remsi
// CHECK-NOT: arith.cmpi
func.func @gather(%data: tensor<5x4xf32>, %indices: tensor<3xi64>) -> tensor<3x4xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds wrap : tensor<5x4xf32>, tensor<3xi64> -> tensor<3x4xf32>
  func.return %r : tensor<3x4xf32>
}

// -----

// CHECK: %position = arith.index_cast %index : i64 to index
// CHECK-NOT: arith.cmpi
func.func @gather(%data: tensor<5x4xf32>, %indices: tensor<3xi64>) -> tensor<3x4xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds unchecked : tensor<5x4xf32>, tensor<3xi64> -> tensor<3x4xf32>
  func.return %r : tensor<3x4xf32>
}

// -----

// Constant indices inside the axis are positions, and nothing else is left.
// CHECK: dense<{{.*}}1, 4{{.*}}>
// CHECK-NOT: arith.shrsi
// CHECK-NOT: arith.cmpi
func.func @gather(%data: tensor<5xi32>) -> tensor<2xi32> {
  %indices = arith.constant dense<[1, -1]> : tensor<2xi64>
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds error : tensor<5xi32>, tensor<2xi64> -> tensor<2xi32>
  func.return %r : tensor<2xi32>
}

// -----

// A component that reaches past is checked, and the other is not; a component that does not says from which size on.
// CHECK: func.func @gather(%data: memref<1x200x5
// CHECK-SAME: attributes {gather.min_axis_sizes = array<i64: 128, 0>}
// CHECK: gather.loop check_indices
// CHECK: arith.cmpi uge
// CHECK-NOT: arith.cmpi uge
// CHECK: func.return
func.func @gather(%data: tensor<200x5xf32>, %indices: tensor<3x2xi8>) -> tensor<3xf32> {
  %r = gather.gather_nd %data, %indices batch_dims 0 bounds error : tensor<200x5xf32>, tensor<3x2xi8> -> tensor<3xf32>
  func.return %r : tensor<3xf32>
}

// -----

// Where one axis is empty there is no position to clamp to: the load stays masked, by both components.
// CHECK: func.func @gather(%data: memref<1x0x5
// CHECK: %inside = arith.cmpi ult
// CHECK: arith.cmpi ult
// CHECK: %all_inside = arith.andi %inside
// CHECK: gather.masked_load %data{{.*}}, %all_inside
func.func @gather(%data: tensor<0x5xf32>, %indices: tensor<3x2xi64>) -> tensor<3xf32> {
  %r = gather.gather_nd %data, %indices batch_dims 0 bounds zero : tensor<0x5xf32>, tensor<3x2xi64> -> tensor<3xf32>
  func.return %r : tensor<3xf32>
}

// -----

// Every uint8 is valid on an axis of 256, and says so.
// CHECK: func.func @gather(%data: memref<1x1x256x4
// CHECK-SAME: attributes {gather.min_axis_sizes = array<i64: 256>}
// CHECK-NOT: arith.cmpi
// CHECK: func.return
func.func @gather(%data: tensor<256x4xf32>, %indices: tensor<3xui8>) -> tensor<3x4xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds error : tensor<256x4xf32>, tensor<3xui8> -> tensor<3x4xf32>
  func.return %r : tensor<3x4xf32>
}

// -----

// An int8 on an axis of 128 needs no remainder to wrap, but it wraps.
// CHECK: func.func @gather(%data: memref<1x1x128x4
// CHECK-SAME: attributes {gather.min_axis_sizes = array<i64: 128>}
// CHECK-NOT: arith.remsi
// CHECK: %wrapped = arith.addi
// CHECK-NOT: arith.remsi
// CHECK: func.return
func.func @gather(%data: tensor<128x4xf32>, %indices: tensor<3xi8>) -> tensor<3x4xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds wrap : tensor<128x4xf32>, tensor<3xi8> -> tensor<3x4xf32>
  func.return %r : tensor<3x4xf32>
}

// -----

// Nor a limit above to clip; the one below stays.
// CHECK: func.func @gather(%data: memref<1x1x128x4
// CHECK-NOT: arith.minsi
// CHECK: arith.maxsi
// CHECK: func.return
func.func @gather(%data: tensor<128x4xf32>, %indices: tensor<3xi8>) -> tensor<3x4xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds clip : tensor<128x4xf32>, tensor<3xi8> -> tensor<3x4xf32>
  func.return %r : tensor<3x4xf32>
}

// -----

// A position is clamped to 0, and so there must be one.
// CHECK: func.func @gather(%data: memref<1x1x5x4
// CHECK-SAME: attributes {gather.min_axis_sizes = array<i64: 1>}
// CHECK: %clamped = arith.select
func.func @gather(%data: tensor<5x4xf32>, %indices: tensor<3xi64>) -> tensor<3x4xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<5x4xf32>, tensor<3xi64> -> tensor<3x4xf32>
  func.return %r : tensor<3x4xf32>
}

// -----

// A uint64 of 2**63 is large, not negative.
// CHECK: func.func @gather(%data: memref<1x1x5x4
// CHECK-NOT: arith.remsi
// CHECK: arith.remui %index, %size : i64
// CHECK: func.return
func.func @gather(%data: tensor<5x4xf32>, %indices: tensor<3xui64>) -> tensor<3x4xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds wrap : tensor<5x4xf32>, tensor<3xui64> -> tensor<3x4xf32>
  func.return %r : tensor<3x4xf32>
}

// What a mean counts becomes the comparison alone; without one where every index is inside.
// CHECK-LABEL: func.func @counted
// CHECK: gather.loop count_bag
// CHECK: %inside = arith.cmpi ult, %wrapped, %size : i64
// CHECK-NEXT: %one = arith.extui %inside : i1 to i64
// CHECK: gather.accumulate %element, %out[%i] if %inside_1
func.func @counted(%data: memref<5xf32>, %indices: memref<4x3xi64>, %out: memref<4xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %c5 = arith.constant 5 : index
  gather.loop indices(%i) = %c0 to %c4 step %c1 {
    %count = gather.loop count_bag(%k) = %c0 to %c3 step %c1 sum {
      %index = memref.load %indices[%i, %k] : memref<4x3xi64>
      %position, %valid = gather.resolve %index within %c5 bounds zero : i64
      %one = arith.extui %valid : i1 to i64
      gather.yield %one : i64
    }
    gather.loop ordered bag(%k) = %c0 to %c3 step %c1 {
      %index = memref.load %indices[%i, %k] : memref<4x3xi64>
      %position, %valid = gather.resolve %index within %c5 bounds zero : i64
      %element = gather.masked_load %data[%position], %valid : memref<5xf32> -> f32
      gather.accumulate %element, %out[%i] if %valid : f32, memref<4xf32>
    }
  }
  func.return
}
